"""The "Feed Forward" box of Figure 1 (Section 3.3)."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.config import ActivationName
from headwise.model.dropout import Dropout

ACTIVATIONS: dict[ActivationName, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "swish": F.silu,
}


class FeedForward(nn.Module):
    """Equation 2, position-wise: expand (``widen``), activate, project (``narrow``)."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: ActivationName = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.widen = nn.Linear(d_model, d_ff)
        self.narrow = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Apply the same two layers to every position."""
        out: Tensor = self.narrow(self.dropout(self.activation(self.widen(x))))
        return out
