"""Activation checkpointing: less memory for more time (Chen et al., 2016).

The backward pass needs the activations of a block. Instead of being kept, they are
recomputed from the input of the block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from headwise.model.kv_cache import KVCache


def checkpoint_activations(model: nn.Module, on: bool = True) -> None:
    """Recompute each block in the backward pass; ``on=False`` undoes it.

    Dropout draws the same masks again, so gradients are the same bits.
    """
    for block in _blocks(model.modules()):
        if on:
            block.forward = partial(_checkpointed, block)
        else:
            vars(block).pop("forward", None)


def is_checkpointed(modules: Iterable[nn.Module]) -> bool:
    """Tell whether :func:`checkpoint_activations` was called for their model."""
    return any("forward" in vars(block) for block in _blocks(modules))


def _checkpointed(block: nn.Module, *inputs: Any) -> Any:
    forward = partial(type(block).forward, block)
    *_, last = inputs
    if not torch.is_grad_enabled() or isinstance(last, KVCache):
        return forward(*inputs)  # a second forward pass would append twice to the cache
    return checkpoint(forward, *inputs, use_reentrant=False)


def _blocks(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    for stack in modules:
        if isinstance(blocks := stack._modules.get("blocks"), nn.ModuleList):
            yield from blocks
