"""The blocks of Figure 1 for incremental decoding, without dropout and module calls.

Their references are ``model.encoder.EncoderBlock`` and ``model.decoder.DecoderBlock``;
``tests/backends/pytorch/test_decoder.py`` holds them equal.

Letters used for sizes: B rows, N sources, W rows of each, H heads, L and S positions,
C channels of a key and a value together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.backends.api import Precision
from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward

MIN_GROWTH = 8
"""Positions by which a KV cache grows at least; else by a quarter."""

PADDING_STEPS = 8
"""bf16 matmuls pad their rows to multiples of an eighth of the power of two below: such
a matmul is compiled for each number of rows."""


SMALL = 1 << 20
"""Multiplications up to which a bf16 matmul is computed in float32, where products of
bf16 numbers are exact: it has less overhead."""


def in_precision(each: Tensor, precision: Precision) -> Tensor:
    """Return a detached tensor in bf16, or as it is for float32."""
    each = each.detach()
    return each.bfloat16() if precision == "bf16" else each


class InferenceLinear:
    """The map x -> x Wᵀ + b for rows of x."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, precision: Precision
    ) -> None:
        self.weight = in_precision(weight, precision)
        self.bias = None if bias is None else in_precision(bias, precision)
        on_cpu = weight.device.type == "cpu"
        self.pads_rows = on_cpu and precision == "bf16"
        # Few rows are multiplied faster by the transposed matrix.
        self.transposed: Tensor | None = None
        if on_cpu and (not self.pads_rows or self.weight.numel() <= SMALL):
            self.transposed = self.weight.to(weight.dtype).t().contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        """Map rows [R D] to rows [R E]."""
        rows = len(x)
        many = self.pads_rows and rows * self.weight.numel() > SMALL
        if many or self.transposed is None:
            padded = _padded(x) if self.pads_rows else x
            return F.linear(padded, self.weight, self.bias)[:rows]
        out = torch.mm(x.to(self.transposed.dtype), self.transposed)
        if self.bias is not None:
            out += self.bias
        return out.to(self.weight.dtype)


def _padded(x: Tensor) -> Tensor:
    rows = len(x)
    missing = -rows % max(1, (1 << rows.bit_length() - 1) // PADDING_STEPS)
    return F.pad(x, (0, 0, 0, missing)) if missing else x


class _Attention:
    """The matrices of an attention box, joined for as few matmuls as possible."""

    def __init__(self, box: MultiHeadAttention, precision: Precision) -> None:
        self.heads = box.num_heads
        self.channels = box.to_queries.weight.shape[0] // self.heads
        both = [_by_head(each, self.heads) for each in (box.to_keys, box.to_values)]
        weight = torch.cat([each for each, _ in both], 1).flatten(0, 1)
        bias = None
        if box.to_keys.bias is not None:
            bias = torch.cat([cast(Tensor, each) for _, each in both], 1).flatten()
        self.kv_width = len(weight) // self.heads  # of a key and a value
        query = box.to_queries
        qkv_weight = torch.cat([query.weight, weight])
        qkv_bias = None if bias is None else torch.cat([query.bias, bias])
        self.queries = InferenceLinear(query.weight, query.bias, precision)
        self.kv = InferenceLinear(weight, bias, precision)
        self.qkv = InferenceLinear(qkv_weight, qkv_bias, precision)
        self.output = InferenceLinear(
            box.to_output.weight, box.to_output.bias, precision
        )

    def split_heads(self, kv: Tensor, rows: int) -> Tensor:
        """Lay out keys and values by head: B·L H·C -> B H L C."""
        return kv.view(rows, -1, self.heads, self.kv_width).transpose(1, 2)

    def attend(self, queries: Tensor, kv: Tensor, mask: Tensor | None) -> Tensor:
        """Attend to keys and values [N H L C] by queries [N H Q channels]."""
        keys, values = kv[..., : self.channels], kv[..., self.channels :]
        return F.scaled_dot_product_attention(queries, keys, values, mask)


class _AddAndNorm:
    """The "Add & Norm" around a box."""

    def __init__(self, box: AddAndNorm, precision: Precision) -> None:
        norm = box.norm
        weights = (
            in_precision(norm.weight, precision),
            in_precision(norm.bias, precision),
        )
        self.pre = box.pre
        self.norm = (norm.normalized_shape, *weights, norm.eps)

    def enter(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, *self.norm) if self.pre else x

    def leave(self, x: Tensor, box: InferenceLinear, out: Tensor) -> Tensor:
        total = box(out).add_(x)
        return total if self.pre else torch.layer_norm(total, *self.norm)


class _FeedForward:
    def __init__(self, box: FeedForward, precision: Precision) -> None:
        self.expand = InferenceLinear(box.widen.weight, box.widen.bias, precision)
        self.project = InferenceLinear(box.narrow.weight, box.narrow.bias, precision)
        self.activation = torch.relu_ if box.bend is F.relu else box.bend

    def __call__(self, x: Tensor, around: _AddAndNorm) -> Tensor:
        hidden = self.activation(self.expand(around.enter(x)))
        return around.leave(x, self.project, hidden)


class InferenceEncoderBlock:
    """A block of the left column of Figure 1."""

    def __init__(self, block: EncoderBlock, precision: Precision) -> None:
        self.attention = _Attention(block.self_attention, precision)
        self.feed_forward = _FeedForward(block.feed_forward, precision)
        self.around_attention = _AddAndNorm(block.around_attention, precision)
        self.around_feed_forward = _AddAndNorm(block.around_feed_forward, precision)

    def __call__(self, x: Tensor, rows: int, mask: Tensor | None) -> Tensor:
        """Pass ``rows`` sources [N·S D] through the block."""
        box = self.attention
        split = box.heads * box.channels
        qkv = box.qkv(self.around_attention.enter(x))
        queries = qkv[:, :split].view(rows, -1, box.heads, box.channels)
        kv = box.split_heads(qkv[:, split:], rows)
        heads = box.attend(queries.transpose(1, 2), kv, mask)
        heads = heads.transpose(1, 2).reshape(len(x), -1)
        x = self.around_attention.leave(x, box.output, heads)
        return self.feed_forward(x, self.around_feed_forward)


AppendKV = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""Takes keys and values [B H C] of the current position, and appends them to a KV
cache; returns the cache [B H L C] and its additive mask: -inf for empty positions."""


class InferenceDecoderBlock:
    """A block of the right column of Figure 1."""

    def __init__(self, block: DecoderBlock, precision: Precision) -> None:
        self.self_attention = _Attention(block.self_attention, precision)
        self.cross_attention = _Attention(block.cross_attention, precision)
        self.feed_forward = _FeedForward(block.feed_forward, precision)
        self.around_self = _AddAndNorm(block.around_self, precision)
        self.around_cross = _AddAndNorm(block.around_cross, precision)
        self.around_feed_forward = _AddAndNorm(block.around_feed_forward, precision)

    def empty_kv(self, rows: int, like: Tensor) -> Tensor:
        """Return an empty self-attention KV cache."""
        box = self.self_attention
        return like.new_empty(rows, box.heads, MIN_GROWTH, box.kv_width)

    def source_kv(self, encoded: Tensor, rows: int) -> Tensor:
        """Return the cross-attention KV cache of ``rows`` sources [N·S D]."""
        box = self.cross_attention
        return box.split_heads(box.kv(encoded), rows).contiguous()

    def __call__(
        self,
        x: Tensor,
        append_kv: AppendKV,
        cross_kv: Tensor,
        cross_mask: Tensor | None,
    ) -> Tensor:
        """Pass rows [B D] through the block, all at the current position."""
        rows, box = len(x), self.self_attention
        split = box.heads * box.channels
        qkv = box.qkv(self.around_self.enter(x))
        self_kv, mask = append_kv(qkv[:, split:].view(rows, box.heads, box.kv_width))
        queries = qkv[:, :split].view(rows, box.heads, 1, box.channels)
        heads = box.attend(queries, self_kv, mask)
        x = self.around_self.leave(x, box.output, heads.view(rows, -1))

        box, sources = self.cross_attention, len(cross_kv)
        queries = box.queries(self.around_cross.enter(x))
        queries = queries.view(sources, -1, box.heads, box.channels).transpose(1, 2)
        heads = box.attend(queries, cross_kv, cross_mask)  # N H W channels
        heads = heads.transpose(1, 2).reshape(rows, -1)
        x = self.around_cross.leave(x, box.output, heads)
        return self.feed_forward(x, self.around_feed_forward)


def _by_head(linear: nn.Linear, heads: int) -> tuple[Tensor, Tensor | None]:
    bias = None if linear.bias is None else linear.bias.view(heads, -1)
    return linear.weight.view(heads, -1, linear.in_features), bias
