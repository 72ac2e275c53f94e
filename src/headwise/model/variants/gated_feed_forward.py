"""Gated feed-forward layers (Shazeer 2020, GLU Variants Improve Transformer).

Letters used for sizes: B batch rows, L positions, D model width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.config import FeedForwardName
from headwise.model.dropout import Dropout

GATES: Mapping[FeedForwardName, Callable[[Tensor], Tensor]] = {
    "glu": torch.sigmoid,
    "bilinear": lambda x: x,
    "reglu": F.relu,
    "geglu": F.gelu,
    "swiglu": F.silu,
}
"""``model.feed_forward`` -> the activation of the gate."""


class GatedFeedForward(nn.Module):
    """(activation(x W + b) ⊗ (x V + c)) W₂ + b₂: the gate W, times ``widen``, V.

    It has three matrices where Equation 2 has two: with d_ff at two thirds it has as
    many parameters. Biases are those of Equation 2; Shazeer leaves them out.
    """

    def __init__(
        self, d_model: int, d_ff: int, *, gate: FeedForwardName, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff)
        self.widen = nn.Linear(d_model, d_ff)
        self.narrow = nn.Linear(d_ff, d_model)
        self.activation = GATES[gate]
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Apply the same three layers to every position."""
        gated = self.activation(self.gate(x)) * self.widen(x)
        out: Tensor = self.narrow(self.dropout(gated))
        return out
