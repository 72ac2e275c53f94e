"""Dropout (Section 5.4), drawing several masks from each random word.

On a CPU, ``torch.nn.functional.dropout`` draws one random number a unit and takes half
the time of training a small model. Here each 64-bit random word decides four units, to
a resolution of 1/65,536 of the wanted share.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = 1 << 16


def draw_kept(like: Float[Tensor, "*S"], share: float) -> Bool[Tensor, "*S"]:
    """Draw which units stay: each is silenced with probability ``share``."""
    words = torch.empty(math.ceil(like.numel() / 4), dtype=torch.int64)
    words.random_(torch.iinfo(torch.int64).min, None)  # all 64 bits
    levels = words.view(torch.int16)[: like.numel()]
    silenced = min(round(share * LEVELS), LEVELS - 1)
    return levels.view(like.shape) >= silenced - LEVELS // 2


class Dropout(nn.Module):
    """Silence a random share of the units while training; enlarge the others."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Return ``x`` thinned while training, and as it is otherwise."""
        if not self.training or self.share == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.share)
        return x * draw_kept(x, self.share) * (1 / (1 - self.share))

    def extra_repr(self) -> str:
        """Show the share in the printed model."""
        return f"share={self.share}"
