"""The "Add & Norm" box of Figure 1 (Section 3.1), with the arrow that skips a box."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from headwise.model.config import NormPlacement
from headwise.model.dropout import Dropout
from headwise.model.kernels import normed_sum, trains_on_cpu


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
        self.fast = True

    def enter(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Return what the box should see."""
        seen: Tensor = self.norm(x) if self.pre else x
        return seen

    def leave(
        self, x: Float[Tensor, "B L D"], out: Float[Tensor, "B L D"]
    ) -> Float[Tensor, "B L D"]:
        """Join what went around the box with what came out of it."""
        if self.fast and not self.pre and trains_on_cpu(x) and x.dtype == out.dtype:
            share = self.dropout.share if self.training else 0.0
            return normed_sum(x, out, self.norm, share)
        total: Tensor = x + self.dropout(out)
        return total if self.pre else self.norm(total)
