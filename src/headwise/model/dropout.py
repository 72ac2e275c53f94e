"""Dropout (Section 5.4)."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

DropoutFunction = Callable[[Tensor, float], Tensor]
"""As ``torch.nn.functional.dropout``: x, and the share of units to silence."""


class Dropout(nn.Module):
    """Silence a random share of the units while training; enlarge the others."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.drop: DropoutFunction = F.dropout  # to be swapped

    def forward(self, x: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Return ``x`` with dropout while training, and as it is otherwise."""
        return self.drop(x, self.share if self.training else 0.0)

    def extra_repr(self) -> str:
        """Show the share in the printed model."""
        return f"share={self.share}"
