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

SHARE_FILLED = 8
"""Rows of a product in bfloat16 are filled up to multiples of an eighth of the power of
two below: such a product is compiled for each number of rows."""


SMALL = 1 << 20
"""Multiplications up to which a product of bfloat16 numbers is done in float32, where
they are exact: it takes less to set up."""


def held(each: Tensor, precision: Precision) -> Tensor:
    """Return a tensor in the numbers of a precision; float32 leaves what there is."""
    each = each.detach()
    return each.bfloat16() if precision == "bf16" else each


class Product:
    """The map x -> x Wᵀ + b for rows of x."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, precision: Precision
    ) -> None:
        self.weight = held(weight, precision)
        self.bias = None if bias is None else held(bias, precision)
        on_cpu = weight.device.type == "cpu"
        self.filled = on_cpu and precision == "bf16"
        # Few rows are multiplied faster with the matrix lying the other way round.
        self.across: Tensor | None = None
        if on_cpu and (not self.filled or self.weight.numel() <= SMALL):
            self.across = self.weight.to(weight.dtype).t().contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        """Map rows [R D] to rows [R E]."""
        rows = len(x)
        many = self.filled and rows * self.weight.numel() > SMALL
        if many or self.across is None:
            given = _filled(x) if self.filled else x
            return F.linear(given, self.weight, self.bias)[:rows]
        out = torch.mm(x.to(self.across.dtype), self.across)
        if self.bias is not None:
            out += self.bias
        return out.to(self.weight.dtype)


def _filled(x: Tensor) -> Tensor:
    rows = len(x)
    missing = -rows % max(1, (1 << rows.bit_length() - 1) // SHARE_FILLED)
    return F.pad(x, (0, 0, 0, missing)) if missing else x


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
        self.queries = Product(query.weight, query.bias, precision)
        self.remember = Product(weight, bias, precision)
        self.together = Product(torch.cat([query.weight, weight]), all_bias, precision)
        self.join = Product(box.to_output.weight, box.to_output.bias, precision)

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

    def __init__(self, box: AddAndNorm, precision: Precision) -> None:
        norm = box.norm
        weights = held(norm.weight, precision), held(norm.bias, precision)
        self.pre = box.pre
        self.norm = (norm.normalized_shape, *weights, norm.eps)

    def enter(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, *self.norm) if self.pre else x

    def leave(self, x: Tensor, box: Product, out: Tensor) -> Tensor:
        total = box(out).add_(x)
        return total if self.pre else torch.layer_norm(total, *self.norm)


class _FeedForward:
    def __init__(self, box: FeedForward, precision: Precision) -> None:
        self.widen = Product(box.widen.weight, box.widen.bias, precision)
        self.narrow = Product(box.narrow.weight, box.narrow.bias, precision)
        self.bend = torch.relu_ if box.bend is F.relu else box.bend

    def __call__(self, x: Tensor, around: _Around) -> Tensor:
        inner = self.bend(self.widen(around.enter(x)))
        return around.leave(x, self.narrow, inner)


class SteppingEncoderBlock:
    """The left column of the figure."""

    def __init__(self, block: EncoderBlock, precision: Precision) -> None:
        self.attention = _Attention(block.self_attention, precision)
        self.feed_forward = _FeedForward(block.feed_forward, precision)
        self.around_attention = _Around(block.around_attention, precision)
        self.around_feed_forward = _Around(block.around_feed_forward, precision)

    def __call__(self, x: Tensor, rows: int, may_attend: Tensor | None) -> Tensor:
        """Pass ``rows`` sources [N·S D] through the block."""
        box = self.attention
        split = box.heads * box.channels
        asked = box.together(self.around_attention.enter(x))
        queries = asked[:, :split].view(rows, -1, box.heads, box.channels)
        memory = box.split(asked[:, split:], rows)
        heads = box.attend(queries.transpose(1, 2), memory, may_attend)
        heads = heads.transpose(1, 2).reshape(len(x), -1)
        x = self.around_attention.leave(x, box.join, heads)
        return self.feed_forward(x, self.around_feed_forward)


Remembering = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""Takes keys and values [B H C] of the position that is written into a memory; returns
that memory [B H L C] and what is added to scores of it: -inf where nothing stands."""


class SteppingDecoderBlock:
    """The right column."""

    def __init__(self, block: DecoderBlock, precision: Precision) -> None:
        self.own = _Attention(block.self_attention, precision)
        self.cross = _Attention(block.cross_attention, precision)
        self.feed_forward = _FeedForward(block.feed_forward, precision)
        self.around_own = _Around(block.around_self, precision)
        self.around_cross = _Around(block.around_cross, precision)
        self.around_feed_forward = _Around(block.around_feed_forward, precision)

    def no_memory(self, rows: int, like: Tensor) -> Tensor:
        """Return room in which nothing is written yet."""
        return like.new_empty(rows, self.own.heads, LEAST_ROOM, self.own.width)

    def read(self, encoded: Tensor, rows: int) -> Tensor:
        """Return the keys and values of ``rows`` sources [N·S D]."""
        return self.cross.split(self.cross.remember(encoded), rows).contiguous()

    def __call__(
        self,
        x: Tensor,
        remember: Remembering,
        source: Tensor,
        may_attend: Tensor | None,
    ) -> Tensor:
        """Pass rows [B D] through, each at the position that is written."""
        rows, box = len(x), self.own
        split = box.heads * box.channels
        asked = box.together(self.around_own.enter(x))
        memory, past = remember(asked[:, split:].view(rows, box.heads, box.width))
        queries = asked[:, :split].view(rows, box.heads, 1, box.channels)
        heads = box.attend(queries, memory, past)
        x = self.around_own.leave(x, box.join, heads.view(rows, -1))

        box, sources = self.cross, len(source)
        queries = box.queries(self.around_cross.enter(x))
        queries = queries.view(sources, -1, box.heads, box.channels).transpose(1, 2)
        heads = box.attend(queries, source, may_attend)  # N H W channels
        heads = heads.transpose(1, 2).reshape(rows, -1)
        x = self.around_cross.leave(x, box.join, heads)
        return self.feed_forward(x, self.around_feed_forward)


def _by_head(linear: nn.Linear, heads: int) -> tuple[Tensor, Tensor | None]:
    bias = None if linear.bias is None else linear.bias.view(heads, -1)
    return linear.weight.view(heads, -1, linear.in_features), bias
