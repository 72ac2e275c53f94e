"""The blocks of Figure 1 without dropout and module calls, for writing token by token.

Letters used for sizes: B rows, N sources, W rows of each, H heads, L and S positions,
C channels of a key and a value together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward

Precision = Literal["float32", "bf16"]

LEAST_ROOM = 8
"""Positions by which room grows; more when a quarter of what is written is more."""

LARGE = 1 << 18
"""Entries from which a matrix is kept in bfloat16 where that is asked for: products of
smaller ones take longer to set up than they save."""

FEW_ROWS = 8
"""Rows go in multiples of this, or of eight times as many where there are more: a
product in bfloat16 is compiled for each number of rows."""

Map = Callable[[Tensor], Tensor]


class _Attention:
    """The products of an attention box, each with as few calls as there can be."""

    def __init__(self, box: MultiHeadAttention, precision: Precision) -> None:
        self.heads = box.num_heads
        self.channels = box.to_queries.weight.shape[0] // self.heads
        both = [_by_head(each, self.heads) for each in (box.to_keys, box.to_values)]
        weight = torch.cat([each for each, _ in both], 1).flatten(0, 1)
        bias = None
        if box.to_keys.bias is not None:
            bias = torch.cat([cast(Tensor, each) for _, each in both], 1).flatten()
        self.width = len(weight) // self.heads  # of a key and a value
        query = box.to_queries
        all_bias = None if bias is None else torch.cat([query.bias, bias])
        self.queries = product(query.weight, query.bias, precision)
        self.remember = product(weight, bias, precision)
        self.together = product(torch.cat([query.weight, weight]), all_bias, precision)
        self.join = product(box.to_output.weight, box.to_output.bias, precision)

    def split(self, both: Tensor, rows: int) -> Tensor:
        """Lay out keys and values by head: B·L H·C -> B H L C."""
        return both.view(rows, -1, self.heads, self.width).transpose(1, 2)

    def attend(
        self, queries: Tensor, memory: Tensor, may_attend: Tensor | None
    ) -> Tensor:
        """Ask a memory [N H L C] by queries [N H Q channels]."""
        keys, values = memory[..., : self.channels], memory[..., self.channels :]
        return F.scaled_dot_product_attention(queries, keys, values, may_attend)


class _Around:
    """The "Add & Norm" around a box."""

    def __init__(self, box: AddAndNorm) -> None:
        norm = box.norm
        self.pre = box.pre
        self.norm = (norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def enter(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, *self.norm) if self.pre else x

    def leave(self, x: Tensor, out: Tensor) -> Tensor:
        total = out.add_(x)
        return total if self.pre else torch.layer_norm(total, *self.norm)


class _FeedForward:
    def __init__(self, box: FeedForward, precision: Precision) -> None:
        self.widen = product(box.widen.weight, box.widen.bias, precision)
        self.narrow = product(box.narrow.weight, box.narrow.bias, precision)
        self.bend = torch.relu_ if box.bend is F.relu else box.bend

    def __call__(self, x: Tensor) -> Tensor:
        return self.narrow(self.bend(self.widen(x)))


class SteppingEncoderBlock:
    """The left column of the figure."""

    def __init__(self, block: EncoderBlock, precision: Precision) -> None:
        self.attention = _Attention(block.self_attention, precision)
        self.feed_forward = _FeedForward(block.feed_forward, precision)
        self.around_attention = _Around(block.around_attention)
        self.around_feed_forward = _Around(block.around_feed_forward)

    def __call__(self, x: Tensor, may_attend: Tensor | None) -> Tensor:
        """Pass sources [N S D] through the block."""
        box, rows = self.attention, len(x)
        split = box.heads * box.channels
        asked = box.together(self.around_attention.enter(x))
        queries = asked[..., :split].view(rows, -1, box.heads, box.channels)
        queries = queries.transpose(1, 2)
        memory = box.split(asked[..., split:], rows)
        heads = box.attend(queries, memory, may_attend)
        out = box.join(heads.transpose(1, 2).reshape(rows, x.shape[1], -1))
        x = self.around_attention.leave(x, out)
        out = self.feed_forward(self.around_feed_forward.enter(x))
        return self.around_feed_forward.leave(x, out)


class SteppingDecoderBlock:
    """The right column: ``here`` is the position that is written."""

    def __init__(self, block: DecoderBlock, precision: Precision) -> None:
        self.own = _Attention(block.self_attention, precision)
        self.cross = _Attention(block.cross_attention, precision)
        self.feed_forward = _FeedForward(block.feed_forward, precision)
        self.around_own = _Around(block.around_self)
        self.around_cross = _Around(block.around_cross)
        self.around_feed_forward = _Around(block.around_feed_forward)

    def no_memory(self, rows: int, like: Tensor) -> Tensor:
        """Return room in which nothing is written yet."""
        return like.new_empty(rows, self.own.heads, LEAST_ROOM, self.own.width)

    def read(self, encoded: Tensor) -> Tensor:
        """Return the keys and values of sources [N S D]."""
        kept = self.cross.remember(encoded)
        return self.cross.split(kept, len(encoded)).contiguous()

    def __call__(
        self,
        x: Tensor,
        memory: Tensor,
        here: int,
        source: Tensor,
        may_attend: Tensor | None,
    ) -> Tensor:
        """Pass rows [B D] through; what is written goes into ``memory``."""
        rows, box = len(x), self.own
        split = box.heads * box.channels
        asked = box.together(self.around_own.enter(x))
        memory[:, :, here] = asked[:, split:].view(rows, box.heads, box.width)
        queries = asked[:, :split].view(rows, box.heads, 1, box.channels)
        heads = box.attend(queries, memory[:, :, : here + 1], None)
        x = self.around_own.leave(x, box.join(heads.view(rows, -1)))

        box, sources = self.cross, len(source)
        queries = box.queries(self.around_cross.enter(x))
        queries = queries.view(sources, -1, box.heads, box.channels).transpose(1, 2)
        heads = box.attend(queries, source, may_attend)  # N H W channels
        out = box.join(heads.transpose(1, 2).reshape(rows, -1))
        x = self.around_cross.leave(x, out)
        out = self.feed_forward(self.around_feed_forward.enter(x))
        return self.around_feed_forward.leave(x, out)


def product(weight: Tensor, bias: Tensor | None, precision: Precision) -> Map:
    """Return the map x -> x Wᵀ + b, whose result is float32 in either precision."""
    weight = weight.detach()
    bias = None if bias is None else bias.detach()
    if precision == "float32" or weight.numel() < LARGE:
        return lambda x: F.linear(x, weight, bias)
    half, half_bias = weight.bfloat16(), None if bias is None else bias.bfloat16()

    def in_half(x: Tensor) -> Tensor:
        flat = x.flatten(0, -2)
        rows = len(flat)
        missing = -rows % (FEW_ROWS if rows <= 8 * FEW_ROWS else 8 * FEW_ROWS)
        flat = F.pad(flat.bfloat16(), (0, 0, 0, missing if rows > 1 else 0))
        out = F.linear(flat, half, half_bias)[:rows].float()
        return out.view(*x.shape[:-1], -1)

    return in_half


def _by_head(linear: nn.Linear, heads: int) -> tuple[Tensor, Tensor | None]:
    bias = None if linear.bias is None else linear.bias.view(heads, -1)
    return linear.weight.view(heads, -1, linear.in_features), bias
