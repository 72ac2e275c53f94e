"""Activation checkpointing: memory bought with time (Chen et al., 2016).

The activations of a block are needed again in the backward pass. Instead of being kept
they can be computed a second time, from the inputs of the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from headwise.model.kv_cache import KVCache
from headwise.model.transformer import Transformer


def checkpoint_activations(model: Transformer, on: bool = True) -> None:
    """Let each block be computed a second time in the backward pass, or no longer.

    Dropout draws the same masks the second time, so gradients are the same bits.
    """
    for block in _blocks(model):
        if on:
            block.forward = partial(_checkpointed, block)
        else:
            vars(block).pop("forward", None)


def is_checkpointed(model: Transformer) -> bool:
    """Tell whether :func:`checkpoint_activations` was called for ``model``."""
    return any("forward" in vars(block) for block in _blocks(model))


def _checkpointed(block: nn.Module, *inputs: Any) -> Any:
    forward = partial(type(block).forward, block)
    *_, last = inputs
    if not torch.is_grad_enabled() or isinstance(last, KVCache):
        return forward(*inputs)  # a KV cache is written to only once
    return checkpoint(forward, *inputs, use_reentrant=False)


def _blocks(model: Transformer) -> Iterator[nn.Module]:
    yield from model.encoder.blocks
    yield from model.decoder.blocks
