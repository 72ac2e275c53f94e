"""Scores of attention: how well a key fits a query, before the softmax.

Letters used for sizes: B batch rows, H heads, Q query positions, K key positions,
C channels of a query or key (d_k).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.config import AttentionName


class DotProduct(nn.Module):
    """q · k times a constant: 1 / √d_k is the paper's Equation 1."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(
        self, queries: Float[Tensor, "B H Q C"], keys: Float[Tensor, "B H K C"]
    ) -> Float[Tensor, "B H Q K"]:
        """Return the score of each key for each query."""
        return queries @ keys.transpose(-2, -1) * self.scale


COSINE_SCALE = 10.0
"""The first factor of cosines; Swin Transformer V2 (Liu et al. 2022) begins with it."""


class CosineScores(nn.Module):
    """cos(q, k) times a trained factor of each head (Henry et al. 2020).

    A cosine is 1 at most, so that without a factor no weight could exceed e² times
    another.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.log_factor = nn.Parameter(torch.zeros(num_heads))
        """ln of what COSINE_SCALE is multiplied by."""

    def forward(
        self, queries: Float[Tensor, "B H Q C"], keys: Float[Tensor, "B H K C"]
    ) -> Float[Tensor, "B H Q K"]:
        """Return the score of each key for each query."""
        cosines = F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).mT
        return cosines * COSINE_SCALE * self.log_factor.exp()[:, None, None]


class AdditiveScores(nn.Module):
    """v · tanh(q + k), with a trained v for each head (Bahdanau et al. 2015).

    The projections of queries and keys are its matrices W and U. It keeps C numbers for
    each pair of positions.
    """

    def __init__(self, num_heads: int, d_k: int) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.empty(num_heads, d_k))

    def forward(
        self, queries: Float[Tensor, "B H Q C"], keys: Float[Tensor, "B H K C"]
    ) -> Float[Tensor, "B H Q K"]:
        """Return the score of each key for each query."""
        # Most of the memory of a training step; in place, it is kept once.
        hidden = (queries[:, :, :, None] + keys[:, :, None]).tanh_()  # B H Q K C
        return (hidden @ self.v[:, None, :, None]).squeeze(-1)


class MultiplicativeScores(nn.Module):
    """q W k, with a trained matrix W for each head (Luong et al. 2015, "general")."""

    def __init__(self, num_heads: int, d_k: int) -> None:
        super().__init__()
        self.matrices = nn.Parameter(torch.empty(num_heads * d_k, d_k))
        """Those of all heads, one below the other."""

    def forward(
        self, queries: Float[Tensor, "B H Q C"], keys: Float[Tensor, "B H K C"]
    ) -> Float[Tensor, "B H Q K"]:
        """Return the score of each key for each query."""
        matrices = self.matrices.view(queries.shape[1], -1, queries.shape[3])
        return queries @ matrices @ keys.transpose(-2, -1)


SCORES: Mapping[AttentionName, Callable[[int, int], nn.Module]] = {
    "scaled": lambda heads, d_k: DotProduct(1 / math.sqrt(d_k)),
    "unscaled": lambda heads, d_k: DotProduct(1.0),
    "cosine": lambda heads, d_k: CosineScores(heads),
    "additive": AdditiveScores,
    "multiplicative": MultiplicativeScores,
}
"""``model.attention`` -> what makes it, of the number of heads and d_k."""
