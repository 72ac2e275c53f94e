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

from headwise.backends.precision import Precision
from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward
from headwise.model.rotary_positions import rotate

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
    """The matrices of an attention layer, joined for as few matmuls as possible."""

    def __init__(self, layer: MultiHeadAttention, precision: Precision) -> None:
        self.heads = layer.num_heads
        self.channels = layer.to_queries.weight.shape[0] // self.heads
        both = [_by_head(each, self.heads) for each in (layer.to_keys, layer.to_values)]
        weight = torch.cat([each for each, _ in both], 1).flatten(0, 1)
        bias = None
        if layer.to_keys.bias is not None:
            bias = torch.cat([cast(Tensor, each) for _, each in both], 1).flatten()
        self.kv_width = len(weight) // self.heads  # of a key and a value
        query = layer.to_queries
        qkv_weight = torch.cat([query.weight, weight])
        qkv_bias = None if bias is None else torch.cat([query.bias, bias])
        self.queries = InferenceLinear(query.weight, query.bias, precision)
        self.kv = InferenceLinear(weight, bias, precision)
        self.qkv = InferenceLinear(qkv_weight, qkv_bias, precision)
        self.output = InferenceLinear(
            layer.to_output.weight, layer.to_output.bias, precision
        )

    def split_heads(self, kv: Tensor, rows: int) -> Tensor:
        """Lay out keys and values by head: B·L H·C -> B H L C."""
        return kv.view(rows, -1, self.heads, self.kv_width).transpose(1, 2)

    def rotate(
        self, queries: Tensor, kv: Tensor, table: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys [B H L C] by a table of positions, if there is one.

        In its number format, as a bf16 angle would be off by whole positions.
        """
        if table is None:
            return queries, kv
        keys, values = kv[..., : self.channels], kv[..., self.channels :]
        rotated = [
            rotate(each.to(table.dtype), table).to(each.dtype)
            for each in (queries, keys)
        ]
        return rotated[0], torch.cat([rotated[1], values], -1)

    def attend(self, queries: Tensor, kv: Tensor, mask: Tensor | None) -> Tensor:
        """Attend to keys and values [N H L C] by queries [N H Q channels]."""
        keys, values = kv[..., : self.channels], kv[..., self.channels :]
        return F.scaled_dot_product_attention(queries, keys, values, mask)


class _AddAndNorm:
    """The "Add & Norm" around a sublayer."""

    def __init__(self, layer: AddAndNorm, precision: Precision) -> None:
        norm = layer.norm
        weights = (
            in_precision(norm.weight, precision),
            in_precision(norm.bias, precision),
        )
        self.pre_norm = layer.pre_norm
        self.residual_scale = layer.residual_scale
        self.norm = (norm.normalized_shape, *weights, norm.eps)

    def sublayer_input(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, *self.norm) if self.pre_norm else x

    def add_residual(self, x: Tensor, layer: InferenceLinear, out: Tensor) -> Tensor:
        total = layer(out).add_(x, alpha=self.residual_scale)
        return total if self.pre_norm else torch.layer_norm(total, *self.norm)


class _FeedForward:
    def __init__(self, layer: FeedForward, precision: Precision) -> None:
        self.expand = InferenceLinear(layer.widen.weight, layer.widen.bias, precision)
        self.project = InferenceLinear(
            layer.narrow.weight, layer.narrow.bias, precision
        )
        self.activation = (
            torch.relu_ if layer.activation is F.relu else layer.activation
        )

    def __call__(self, x: Tensor, around: _AddAndNorm) -> Tensor:
        hidden = self.activation(self.expand(around.sublayer_input(x)))
        return around.add_residual(x, self.project, hidden)


class InferenceEncoderBlock:
    """A block of the left column of Figure 1."""

    def __init__(self, block: EncoderBlock, precision: Precision) -> None:
        self.attention = _Attention(block.self_attention, precision)
        self.feed_forward = _FeedForward(block.feed_forward, precision)
        self.around_attention = _AddAndNorm(block.around_attention, precision)
        self.around_feed_forward = _AddAndNorm(block.around_feed_forward, precision)

    def __call__(
        self,
        x: Tensor,
        rows: int,
        mask: Tensor | None,
        rotations: Tensor | None = None,
    ) -> Tensor:
        """Pass ``rows`` sources [N·S D] through the block."""
        layer = self.attention
        split = layer.heads * layer.channels
        qkv = layer.qkv(self.around_attention.sublayer_input(x))
        queries = qkv[:, :split].view(rows, -1, layer.heads, layer.channels)
        kv = layer.split_heads(qkv[:, split:], rows)
        queries, kv = layer.rotate(queries.transpose(1, 2), kv, rotations)
        heads = layer.attend(queries, kv, mask)
        heads = heads.transpose(1, 2).reshape(len(x), -1)
        x = self.around_attention.add_residual(x, layer.output, heads)
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
        layer = self.self_attention
        return like.new_empty(rows, layer.heads, MIN_GROWTH, layer.kv_width)

    def source_kv(self, encoded: Tensor, rows: int) -> Tensor:
        """Return the cross-attention KV cache of ``rows`` sources [N·S D]."""
        layer = self.cross_attention
        return layer.split_heads(layer.kv(encoded), rows).contiguous()

    def __call__(
        self,
        x: Tensor,
        append_kv: AppendKV,
        cross_kv: Tensor,
        cross_mask: Tensor | None,
        rotations: Tensor | None = None,
    ) -> Tensor:
        """Pass rows [B D] through the block, all at the current position."""
        rows, layer = len(x), self.self_attention
        split = layer.heads * layer.channels
        qkv = layer.qkv(self.around_self.sublayer_input(x))
        queries = qkv[:, :split].view(rows, layer.heads, 1, layer.channels)
        kv = qkv[:, split:].view(rows, layer.heads, 1, layer.kv_width)
        queries, kv = layer.rotate(queries, kv, rotations)
        self_kv, mask = append_kv(kv[:, :, 0])
        heads = layer.attend(queries, self_kv, mask)
        x = self.around_self.add_residual(x, layer.output, heads.view(rows, -1))

        layer, sources = self.cross_attention, len(cross_kv)
        queries = layer.queries(self.around_cross.sublayer_input(x))
        queries = queries.view(sources, -1, layer.heads, layer.channels).transpose(1, 2)
        heads = layer.attend(queries, cross_kv, cross_mask)  # N H W channels
        heads = heads.transpose(1, 2).reshape(rows, -1)
        x = self.around_cross.add_residual(x, layer.output, heads)
        return self.feed_forward(x, self.around_feed_forward)


def _by_head(linear: nn.Linear, heads: int) -> tuple[Tensor, Tensor | None]:
    bias = None if linear.bias is None else linear.bias.view(heads, -1)
    return linear.weight.view(heads, -1, linear.in_features), bias
