"""Activation checkpointing: memory bought with time (Chen et al., 2016).

What a block computes on the way up is needed again on the way back. Instead of being
kept it can be computed a second time, from the block's inputs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def run_block(block: nn.Module, *inputs: Any, recompute: bool) -> Any:
    """Return ``block(*inputs)``; with ``recompute``, keep nothing of what is inside.

    Dropout silences the same units the second time, so gradients are the same bits.
    """
    if not (recompute and torch.is_grad_enabled()):
        return block(*inputs)
    return checkpoint(block, *inputs, use_reentrant=False)
