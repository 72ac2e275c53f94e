"""Dropout (Section 5.4)."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

DropoutFunction = Callable[[Tensor, float], Tensor]
"""As ``torch.nn.functional.dropout``: takes x and the dropout rate."""


class Dropout(nn.Module):
    """Dropout with the rate ``p``, in training mode only."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.drop: DropoutFunction = F.dropout  # backends replace it

    def forward(self, x: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Return ``x`` with dropout in training mode, and unchanged otherwise."""
        return self.drop(x, self.p if self.training else 0.0)

    def extra_repr(self) -> str:
        """Show the rate in the printed model."""
        return f"p={self.p}"
