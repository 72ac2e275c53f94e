"""Additive attention (Bahdanau et al. 2015), which Section 3.2.1 names.

Letters used for sizes: B batch rows, Q query positions, K key positions, D model width.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

WeightFunction = Callable[..., Tensor]
"""As :func:`additive_weights`, with positional arguments."""


def additive_weights(
    queries: Float[Tensor, "B Q D"],
    keys: Float[Tensor, "B K D"],
    scale: Float[Tensor, " D"],
    is_real: Bool[Tensor, "B K"],
) -> Float[Tensor, "B Q K"]:
    """Compute softmax(vᵀ tanh(q + k)), the weight of each key for each query.

    ``scale`` is v. Where ``is_real`` is False, at padding, the weight is exactly 0.
    """
    # Q·K·D numbers, most of a training step's memory; in place, they are kept once.
    hidden = (queries[:, :, None] + keys[:, None]).tanh_()
    scores = hidden @ scale
    return scores.masked_fill(~is_real[:, None], -math.inf).softmax(dim=-1)


class AdditiveAttention(nn.Module):
    """One head whose scores come from a small network: vᵀ tanh(W q + U k)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.to_queries = nn.Linear(d_model, d_model)
        self.to_keys = nn.Linear(d_model, d_model, bias=False)
        self.to_scores = nn.Linear(d_model, 1, bias=False)
        self.weigh: WeightFunction = additive_weights  # swapped by attention_hooks.py

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        keys: Float[Tensor, "B K D"],
        values: Float[Tensor, "B K D"],
        is_real: Bool[Tensor, "B K"],
    ) -> Float[Tensor, "B Q D"]:
        """Return the weighted mean of ``values`` for each position of ``x``.

        ``keys`` are U k, which :attr:`to_keys` projects once for all queries.
        """
        scale = self.to_scores.weight[0]
        weights = self.weigh(self.to_queries(x), keys, scale, is_real)
        return weights @ values
