"""Activation checkpointing: memory bought with time (Chen et al., 2016).

What a block computes on the way up is needed again on the way back. Instead of being
kept it can be computed a second time, from the block's inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

BlockCall = Callable[..., Any]
"""A block and its inputs, to what comes out of it."""


def plainly(block: nn.Module, *inputs: Any) -> Any:
    """Call a block as any module is called."""
    return block(*inputs)


def run_block(
    block: nn.Module, *inputs: Any, recompute: bool, call: BlockCall = plainly
) -> Any:
    """Return ``block(*inputs)``; with ``recompute``, keep nothing of what is inside.

    Dropout silences the same units the second time, so gradients are the same bits.
    """
    if not (recompute and torch.is_grad_enabled()):
        return call(block, *inputs)
    return checkpoint(call, block, *inputs, use_reentrant=False)
