"""What a residual connection carries past its sublayer.

Letters used for sizes: B batch rows, L positions, D model width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.model.config import ResidualName, TransformerConfig

Residual = Callable[[Tensor], Tensor]
"""Takes what goes around a sublayer; returns what is added to its output."""


@dataclass(frozen=True)
class LastChannels:
    """Carries the last channels only, where a concatenated position encoding is."""

    count: int

    def __call__(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Return ``x`` with zeros in all other channels."""
        kept = x[..., -self.count :]
        others = x.new_zeros(*x.shape[:-1], x.shape[-1] - self.count)
        return torch.cat([others, kept], dim=-1)


RESIDUALS: Mapping[ResidualName, Callable[[TransformerConfig], Residual | None]] = {
    "all": lambda c: None,
    "positions": lambda c: LastChannels(c.position_width),
    "none": lambda c: torch.zeros_like,
}
"""``model.residual`` -> what makes it, of the config; None carries everything."""
