"""Attention of one head to the source, as decoders before the Transformer had it.

Letters used for sizes: B batch rows, Q query positions, K key positions, D model width.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.config import RecurrentAttentionName

WeightFunction = Callable[..., Tensor]
"""As :func:`additive_weights` or :func:`similarity_weights`, with positional arguments;
the weights are [B Q K]."""

Similarity = Callable[[Tensor, Tensor], Tensor]
"""Scores [B Q K] of queries [B Q D] and keys [B K D]."""


@dataclass(frozen=True)
class SourceMemory:
    """What a decoder attends to, the same at every step."""

    keys: Float[Tensor, "B K D"]
    values: Float[Tensor, "B K D"]
    is_real: Bool[Tensor, "B K"]

    def index_select(self, index: Int[Tensor, " rows"]) -> SourceMemory:
        """Select batch rows in this order, repeats allowed."""
        return SourceMemory(self.keys[index], self.values[index], self.is_real[index])


class SourceAttention(nn.Module):
    """Base class: one head, whose weights :attr:`weigh` computes.

    It is swapped by ``attention_hooks.py``.
    """

    weigh: WeightFunction

    @abstractmethod
    def project_keys(self, encoded: Float[Tensor, "B K D"]) -> Float[Tensor, "B K D"]:
        """Return the keys of the output of an encoder, once for all queries."""

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "B Q D"], memory: SourceMemory
    ) -> Float[Tensor, "B Q D"]:
        """Return the weighted mean of the values for each position of ``x``."""


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
    return _weights(hidden @ scale, is_real)


class AdditiveAttention(SourceAttention):
    """Scores from a small network (Bahdanau et al. 2015): vᵀ tanh(W q + U k)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.to_queries = nn.Linear(d_model, d_model)
        self.to_keys = nn.Linear(d_model, d_model, bias=False)
        self.to_scores = nn.Linear(d_model, 1, bias=False)
        self.weigh = additive_weights

    def project_keys(self, encoded: Float[Tensor, "B K D"]) -> Float[Tensor, "B K D"]:
        """Return U k."""
        keys: Tensor = self.to_keys(encoded)
        return keys

    def forward(
        self, x: Float[Tensor, "B Q D"], memory: SourceMemory
    ) -> Float[Tensor, "B Q D"]:
        """Return the weighted mean of the values for each position of ``x``."""
        scale = self.to_scores.weight[0]
        queries = self.to_queries(x)
        weights = self.weigh(queries, memory.keys, scale, memory.is_real)
        return weights @ memory.values


def dot_product(
    queries: Float[Tensor, "B Q D"], keys: Float[Tensor, "B K D"]
) -> Float[Tensor, "B Q K"]:
    """Compute q · k (Luong et al. 2015, "dot")."""
    return queries @ keys.transpose(1, 2)


def cosine(
    queries: Float[Tensor, "B Q D"], keys: Float[Tensor, "B K D"]
) -> Float[Tensor, "B Q K"]:
    """Compute cos(q, k), which is between -1 and 1: no weight exceeds e² another."""
    return dot_product(F.normalize(queries, dim=-1), F.normalize(keys, dim=-1))


def similarity_weights(
    queries: Float[Tensor, "B Q D"],
    keys: Float[Tensor, "B K D"],
    similarity: Similarity,
    is_real: Bool[Tensor, "B K"],
) -> Float[Tensor, "B Q K"]:
    """Compute softmax(similarity of q and k), 0 where ``is_real`` is False."""
    return _weights(similarity(queries, keys), is_real)


class SimilarityAttention(SourceAttention):
    """Scores without weights of their own: how alike a query and a key are."""

    def __init__(self, similarity: Similarity) -> None:
        super().__init__()
        self.similarity = similarity
        self.weigh = similarity_weights

    def project_keys(self, encoded: Float[Tensor, "B K D"]) -> Float[Tensor, "B K D"]:
        """Return the output of the encoder as it is."""
        return encoded

    def forward(
        self, x: Float[Tensor, "B Q D"], memory: SourceMemory
    ) -> Float[Tensor, "B Q D"]:
        """Return the weighted mean of the values for each position of ``x``."""
        weights = self.weigh(x, memory.keys, self.similarity, memory.is_real)
        return weights @ memory.values


SOURCE_ATTENTIONS: Mapping[
    RecurrentAttentionName, Callable[[int], SourceAttention] | None
] = {
    "additive": AdditiveAttention,
    "cosine": lambda d_model: SimilarityAttention(cosine),
    "dot": lambda d_model: SimilarityAttention(dot_product),
    "none": None,
}
"""``model.recurrent_attention`` -> what makes it for a width, if there is any."""


def _weights(
    scores: Float[Tensor, "B Q K"], is_real: Bool[Tensor, "B K"]
) -> Float[Tensor, "B Q K"]:
    return scores.masked_fill(~is_real[:, None], -math.inf).softmax(dim=-1)
