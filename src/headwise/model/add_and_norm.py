"""The "Add & Norm" box of Figure 1: residual connection and layer normalization."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from headwise.model.config import NormPlacement
from headwise.model.dropout import Dropout
from headwise.model.variants.residuals import Residual

AddAndNormFunction = Callable[..., Tensor]
"""As :func:`add_and_norm`."""


def add_and_norm(
    x: Float[Tensor, "B L D"],
    out: Float[Tensor, "B L D"],
    norm: nn.Module,
    dropout: nn.Module,
) -> Float[Tensor, "B L D"]:
    """Compute LayerNorm(x + Sublayer(x)), with dropout on the output (Section 5.4)."""
    normed: Tensor = norm(x + dropout(out))
    return normed


class AddAndNorm(nn.Module):
    """The residual connection around a sublayer, with layer normalization.

        post-norm    LayerNorm(x + Sublayer(x))      as published (Section 3.1)
        pre-norm     x + Sublayer(LayerNorm(x))

    The sublayer runs between ``sublayer_input`` and ``add_residual``. Dropout falls on
    its output in both cases (Section 5.4).
    """

    def __init__(
        self,
        d_model: int,
        dropout: float,
        placement: NormPlacement,
        *,
        make_norm: Callable[[int], nn.Module] = nn.LayerNorm,
        residual: Residual | None = None,
    ) -> None:
        super().__init__()
        self.norm = make_norm(d_model)
        self.residual = residual
        self.dropout = Dropout(dropout)
        self.pre_norm = placement == "pre"
        self.add_and_norm: AddAndNormFunction = add_and_norm  # backends replace it

    def sublayer_input(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Return LayerNorm(x) if pre-norm, else ``x``."""
        normed: Tensor = self.norm(x) if self.pre_norm else x
        return normed

    def add_residual(
        self, x: Float[Tensor, "B L D"], out: Float[Tensor, "B L D"]
    ) -> Float[Tensor, "B L D"]:
        """Return ``x`` plus the sublayer's output, normalized if post-norm."""
        if self.residual is not None:
            x = self.residual(x)
        if self.pre_norm:
            return x + cast(Tensor, self.dropout(out))
        return self.add_and_norm(x, out, self.norm, self.dropout)
