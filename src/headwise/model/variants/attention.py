"""Attention with other scores, relative positions, or a window around each position.

Letters used for sizes are those of ``model/attention.py``; further N blocks of queries,
S queries in a block, W keys that a block may attend to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.attention import MultiHeadAttention, masked_softmax
from headwise.model.config import TransformerConfig
from headwise.model.rotary_positions import with_positions
from headwise.model.variants.relative_positions import (
    RELATIVE_POSITIONS,
    RelativePositions,
)
from headwise.model.variants.scores import SCORES

Mask = Bool[Tensor, "#B #H #Q _"]


@dataclass(frozen=True)
class Window:
    """How many positions before and after its own a query may attend to."""

    before: int
    after: int


@dataclass
class VariantAttention:
    """Takes the place of ``scaled_dot_product_attention``, and of its weights.

    Queries are the last Q of the K positions, as in a KV cache. A window restricts
    attention to O(r n d) time and memory for n positions in a window of r, as in Table
    1 of the paper, unless the mask has a row for each query, which has n² entries.
    """

    score: nn.Module
    positions: RelativePositions | None = None
    window: Window | None = None

    def weigh(
        self,
        queries: Float[Tensor, "B H Q C"],
        keys: Float[Tensor, "B H K C"],
        mask: Mask | None,
    ) -> Float[Tensor, "B H Q K"]:
        """Return the weight of each key for each query, 0 outside the window."""
        return self._weigh(queries, keys, mask, keys.shape[2] - queries.shape[2])

    def mix(
        self, weights: Float[Tensor, "B H Q K"], values: Float[Tensor, "B H K V"]
    ) -> Float[Tensor, "B H Q V"]:
        """Return the weighted sums of values."""
        return self._mix(weights, values, weights.shape[3] - weights.shape[2])

    def __call__(
        self,
        queries: Float[Tensor, "B H Q C"],
        keys: Float[Tensor, "B H K C"],
        values: Float[Tensor, "B H K V"],
        mask: Mask | None,
        dropout: float,
    ) -> Float[Tensor, "B H Q V"]:
        """Attend as ``scaled_dot_product_attention`` does."""
        is_dense = self.window is None or (mask is not None and mask.shape[2] > 1)
        if is_dense:
            weights = self.weigh(queries, keys, mask)
            return self.mix(F.dropout(weights, dropout), values)
        return self._in_blocks(queries, keys, values, mask, dropout)

    def _in_blocks(
        self,
        queries: Float[Tensor, "B H Q C"],
        keys: Float[Tensor, "B H K C"],
        values: Float[Tensor, "B H K V"],
        mask: Bool[Tensor, "#B #H 1 K"] | None,
        dropout: float,
    ) -> Float[Tensor, "B H Q V"]:
        """Cut the queries into blocks as wide as the window, which share its keys."""
        window = cast(Window, self.window)
        rows, heads, length = queries.shape[:3]
        earlier = keys.shape[2] - length
        size = min(length, window.before + window.after + 1)
        count = -(-length // size)
        padding = count * size - length
        # A negative number crops: of a KV cache, keys before the window.
        around = window.before - earlier, window.after + padding
        width = window.before + size + window.after

        def to_blocks(x: Float[Tensor, "B H K C"]) -> Float[Tensor, "BN H W C"]:
            blocks = F.pad(x, (0, 0, *around)).unfold(2, width, size)  # B H N C W
            return blocks.permute(0, 2, 1, 4, 3).flatten(0, 1)

        if mask is None:
            mask = torch.ones(1, 1, 1, keys.shape[2], dtype=torch.bool).to(keys.device)
        there = F.pad(mask.expand(rows, *mask.shape[1:]), around)
        there = there.unfold(3, width, size)  # B #H 1 N W
        there = there.permute(0, 3, 1, 2, 4).flatten(0, 1)
        blocks = F.pad(queries, (0, 0, 0, padding))
        blocks = blocks.reshape(rows, heads, count, size, -1)
        blocks = blocks.transpose(1, 2).flatten(0, 1)  # B H N S C -> B·N H S C
        weights = self._weigh(blocks, to_blocks(keys), there, window.before)
        weights = F.dropout(weights, dropout)
        out = self._mix(weights, to_blocks(values), window.before)
        out = out.reshape(rows, count, heads, size, -1).transpose(1, 2)  # B H N S V
        return out.flatten(2, 3)[:, :, :length]

    def _weigh(
        self,
        queries: Float[Tensor, "B H Q C"],
        keys: Float[Tensor, "B H K C"],
        mask: Mask | None,
        first: int,
    ) -> Float[Tensor, "B H Q K"]:
        """Return the weights; the first query is at the position of key ``first``."""
        scores: Tensor = self.score(queries, keys)
        apart = distances(queries.shape[2], keys.shape[2], first, scores.device)
        if self.positions is not None:
            scores = scores + self.positions.scores(queries, apart)
        if self.window is not None:
            inside = (apart >= -self.window.before) & (apart <= self.window.after)
            mask = inside[None, None] if mask is None else mask & inside
        return masked_softmax(scores, mask)

    def _mix(
        self,
        weights: Float[Tensor, "B H Q K"],
        values: Float[Tensor, "B H K V"],
        first: int,
    ) -> Float[Tensor, "B H Q V"]:
        out = weights @ values
        if self.positions is None:
            return out
        apart = distances(weights.shape[2], weights.shape[3], first, weights.device)
        added = self.positions.values(weights, apart)
        return out if added is None else out + added


def distances(
    num_queries: int, num_keys: int, first: int, device: torch.device
) -> Int[Tensor, "Q K"]:
    """Return the position of each key minus that of each query.

    The first query is at the position of key ``first``.
    """
    keys = torch.arange(num_keys, device=device)
    queries = torch.arange(first, first + num_queries, device=device)
    return keys - queries[:, None]


def window_of(config: TransformerConfig, *, causal: bool) -> Window | None:
    """Return the window of self-attention, or None: a position attends to all.

    It has ``attention_window`` positions: the last ones if ``causal``, otherwise as
    many before as after the position.
    """
    size = config.attention_window
    if size is None:
        return None
    return Window(size - 1, 0) if causal else Window((size - 1) // 2, (size - 1) // 2)


def as_self_attention(
    layer: MultiHeadAttention, config: TransformerConfig, *, causal: bool
) -> MultiHeadAttention:
    """Return a layer with the positions and the window that ``config`` says."""
    make_positions = RELATIVE_POSITIONS.get(config.positions)
    window = window_of(config, causal=causal)
    if make_positions is not None or window is not None:
        score, positions = _score_of(layer, config), None
        if make_positions is not None:
            positions = make_positions(config, causal)
            layer.relative_positions = positions
        layer.attend = VariantAttention(score, positions, window)
    return with_positions(layer, config)


def with_scores(
    layer: MultiHeadAttention, config: TransformerConfig
) -> MultiHeadAttention:
    """Return a layer of any kind of attention with the scores that ``config`` says."""
    if config.attention != "scaled":
        layer.attend = VariantAttention(_score_of(layer, config))
    return layer


def _score_of(layer: MultiHeadAttention, config: TransformerConfig) -> nn.Module:
    """Return the module of the scores, which becomes part of ``layer``."""
    if not hasattr(layer, "score"):
        layer.score = SCORES[config.attention](config.num_heads, config.key_width)
    return cast(nn.Module, layer.score)
