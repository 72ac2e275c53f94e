"""Relative positions: what a distance adds to the scores of self-attention.

Nothing is added to embeddings, and nothing in cross-attention: between a source and a
target there is no distance. A distance is that of a key from a query, negative for a
key that comes before it.

Letters used for sizes: B batch rows, H heads, Q query positions, K key positions,
C channels of a query or key, V channels of a value, R distances told apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.model.config import PositionName, TransformerConfig


class RelativePositions(nn.Module):
    """Base class: adds nothing."""

    is_shared = False
    """Whether all blocks of a stack have the parameters of the first."""

    def scores(
        self, queries: Float[Tensor, "B H Q C"], distances: Int[Tensor, "Q K"]
    ) -> Float[Tensor, "#B H Q K"]:
        """Return what is added to the scores."""
        raise NotImplementedError

    def values(
        self, weights: Float[Tensor, "B H Q K"], distances: Int[Tensor, "Q K"]
    ) -> Float[Tensor, "B H Q V"] | None:
        """Return what is added to the weighted sums of values, or None for nothing."""
        return None


class Alibi(RelativePositions):
    """ALiBi (Press et al. 2022): each head subtracts its slope times the distance.

    Published for decoders; in an encoder the distance counts on both sides alike.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(num_heads)

    def scores(
        self, queries: Float[Tensor, "B H Q C"], distances: Int[Tensor, "Q K"]
    ) -> Float[Tensor, "1 H Q K"]:
        """Return -m |distance|, with the slope m of each head."""
        slopes = torch.tensor(self.slopes, dtype=queries.dtype, device=queries.device)
        return (-slopes[:, None, None] * distances.abs())[None]


def alibi_slopes(num_heads: int) -> list[float]:
    """Return the slope of each head, as the authors' code has them.

    2^(-8/h), 2^(-16/h), … of h heads if h is a power of two; else those of the next
    smaller power, and then every other one of the next larger.
    """
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    between = [2 ** (-4 * head / power) for head in range(1, 2 * power + 1, 2)]
    return (slopes + between)[:num_heads]


SHAW_CLIP = 16
"""Distances beyond it count as it: k of Shaw et al. 2018."""


class DistanceVectors(nn.Module):
    """A trained vector for each distance told apart."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(count, width))


class ShawPositions(RelativePositions):
    """Relative position representations (Shaw et al. 2018, Equations 3 and 4).

    A trained vector of the distance, clipped to ``SHAW_CLIP``, is added to each key and
    another to each value; the heads of a layer share them. So scores get q · a / √d_k,
    without √d_k in unscaled attention.
    """

    def __init__(self, d_k: int, d_v: int, *, causal: bool, scaled: bool) -> None:
        super().__init__()
        self.after = 0 if causal else SHAW_CLIP
        self.scale = 1 / math.sqrt(d_k) if scaled else 1.0
        count = SHAW_CLIP + 1 + self.after
        self.of_keys = DistanceVectors(count, d_k)
        self.of_values = DistanceVectors(count, d_v)

    def scores(
        self, queries: Float[Tensor, "B H Q C"], distances: Int[Tensor, "Q K"]
    ) -> Float[Tensor, "B H Q K"]:
        """Return q · a of each distance; no tensor has a vector for each pair."""
        products = queries @ self.of_keys.vectors.T  # B H Q R
        index = self._index(distances).expand(*queries.shape[:2], -1, -1)
        return products.gather(-1, index) * self.scale

    def values(
        self, weights: Float[Tensor, "B H Q K"], distances: Int[Tensor, "Q K"]
    ) -> Float[Tensor, "B H Q V"]:
        """Return the sum of the vectors of all distances, by their weights."""
        vectors = self.of_values.vectors
        sums = weights.new_zeros(*weights.shape[:3], len(vectors))
        sums = sums.scatter_add(-1, self._index(distances).expand_as(weights), weights)
        return sums @ vectors.to(sums.dtype)

    def _index(self, distances: Int[Tensor, "Q K"]) -> Int[Tensor, "Q K"]:
        return distances.clamp(-SHAW_CLIP, self.after) + SHAW_CLIP


T5_BUCKETS = 32
T5_MAX_DISTANCE = 128
"""Distances from it on share a bucket (Raffel et al. 2020, Section 2.1)."""


class T5Bias(RelativePositions):
    """Relative position bias of T5 (Raffel et al. 2020): a trained number per bucket.

    Each head has its own; the blocks of a stack share them.
    """

    is_shared = True

    def __init__(self, num_heads: int, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.biases = nn.Parameter(torch.empty(T5_BUCKETS, num_heads))

    def scores(
        self, queries: Float[Tensor, "B H Q C"], distances: Int[Tensor, "Q K"]
    ) -> Float[Tensor, "1 H Q K"]:
        """Return the number of the bucket that each distance is in."""
        buckets = t5_buckets(distances, causal=self.causal)
        return self.biases[buckets].permute(2, 0, 1)[None]  # Q K H -> 1 H Q K


def t5_buckets(distances: Int[Tensor, "Q K"], *, causal: bool) -> Int[Tensor, "Q K"]:
    """Return the bucket of each distance, from 0 to ``T5_BUCKETS`` - 1.

    Half of the buckets hold one distance each, the other half ranges that grow up to
    ``T5_MAX_DISTANCE``. If not ``causal``, later keys have the upper half of them all.
    """
    if causal:
        return _buckets_of_one_side(-distances.clamp(max=0), T5_BUCKETS)
    half = T5_BUCKETS // 2
    return (distances > 0) * half + _buckets_of_one_side(distances.abs(), half)


def _buckets_of_one_side(
    distances: Int[Tensor, "Q K"], count: int
) -> Int[Tensor, "Q K"]:
    exact = count // 2
    ratio = distances.clamp(min=1).float() / exact
    growth = ratio.log() / math.log(T5_MAX_DISTANCE / exact) * (count - exact)
    ranged = (exact + growth.long()).clamp(max=count - 1)
    return distances.where(distances < exact, ranged)


RELATIVE_POSITIONS: Mapping[
    PositionName, Callable[[TransformerConfig, bool], RelativePositions]
] = {
    "alibi": lambda c, causal: Alibi(c.num_heads),
    "shaw": lambda c, causal: ShawPositions(
        c.key_width, c.value_width, causal=causal, scaled=c.attention == "scaled"
    ),
    "t5": lambda c, causal: T5Bias(c.num_heads, causal=causal),
}
"""``model.positions`` -> what makes them, of the config and whether attention is
causal."""


def share_positions(blocks: nn.ModuleList) -> None:
    """Let the blocks of a stack use the relative positions of the first, if shared.

    Only the first block then has them among its parameters, as in T5.
    """
    layers: list[Any] = [block.self_attention for block in blocks]
    first = getattr(layers[0], "relative_positions", None) if layers else None
    if not isinstance(first, RelativePositions) or not first.is_shared:
        return
    for layer in layers[1:]:
        del layer.relative_positions
        layer.attend.positions = first
