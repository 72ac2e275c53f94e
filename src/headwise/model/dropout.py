"""Dropout (Section 5.4)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.kernels import silenced


class Dropout(nn.Module):
    """Silence a random share of the units while training; enlarge the others."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.fast = True

    def forward(self, x: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Return ``x`` thinned while training, and as it is otherwise."""
        if not self.training or self.share == 0.0:
            return x
        if self.fast and x.device.type == "cpu" and not torch.compiler.is_compiling():
            return silenced(x, self.share)
        return F.dropout(x, self.share)

    def extra_repr(self) -> str:
        """Show the share in the printed model."""
        return f"share={self.share}"
