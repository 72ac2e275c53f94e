"""The "Add & Norm" box of Figure 1 (Section 3.1), with the arrow that skips a box."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from headwise.model.config import NormPlacement
from headwise.model.dropout import Dropout

AddAndNormFunction = Callable[..., Tensor]
"""As :func:`add_and_norm`."""


def add_and_norm(
    x: Float[Tensor, "B L D"],
    out: Float[Tensor, "B L D"],
    norm: nn.Module,
    dropout: nn.Module,
) -> Float[Tensor, "B L D"]:
    """Compute LayerNorm(x + Sublayer(x)), with dropout on the output (Section 5.4)."""
    total: Tensor = norm(x + dropout(out))
    return total


class AddAndNorm(nn.Module):
    """Stands around another box: ``enter`` before it, ``leave`` after it.

        post    leave: norm(x + out)          as published
        pre     enter: norm(x); leave: x + out

    Without dropout, that is: dropout falls on ``out`` in both cases (Section 5.4).
    """

    def __init__(self, d_model: int, dropout: float, placement: NormPlacement) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.pre = placement == "pre"
        self.add_and_norm: AddAndNormFunction = add_and_norm  # to be swapped

    def enter(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Return what the box should see."""
        seen: Tensor = self.norm(x) if self.pre else x
        return seen

    def leave(
        self, x: Float[Tensor, "B L D"], out: Float[Tensor, "B L D"]
    ) -> Float[Tensor, "B L D"]:
        """Join what went around the box with what came out of it."""
        if self.pre:
            return x + cast(Tensor, self.dropout(out))
        return self.add_and_norm(x, out, self.norm, self.dropout)
