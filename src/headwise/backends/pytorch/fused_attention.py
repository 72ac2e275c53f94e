"""Equation 1, fused; on a CPU with hand-written gradients.

The reference is ``model.attention.scaled_dot_product_attention``;
``tests/backends/pytorch/test_cpu_autograd.py`` holds values and gradients equal.

Letters used for sizes in this file:

    B  batch rows        H  heads                        C  channels of a query or key
    Q  query positions   K  key positions                V  channels of a value
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from headwise.backends.pytorch.cpu_autograd import apply_mask, draw_mask, trains_on_cpu
from headwise.backends.pytorch.unpadded_forward import (
    AnyMask,
    UnpaddedMask,
    Unpadding,
    additive_mask,
)

MAX_KEYS_BY_MATMUL = 512
"""Keys up to which whole matrices of attention weights are kept for the gradients;
their size grows with the square of the length."""

MIN_KEYS_FOR_TORCH = 16
"""Keys from which torch's softmax uses whole vector registers."""


def fused_attention(
    queries: Float[Tensor, "B H Q C"],
    keys: Float[Tensor, "B H K C"],
    values: Float[Tensor, "B H K V"],
    may_attend: AnyMask | None,
    dropout: float,
) -> Float[Tensor, "B H Q V"]:
    """Compute ``scaled_dot_product_attention``, fused; unpadded tensors stay unpadded.

    The backward pass of torch's kernel is slow on a CPU: training uses matmuls there.
    """
    if trains_on_cpu(queries) and _suits_matmul(keys, may_attend):
        return attention_by_matmul(queries, keys, values, may_attend, dropout)
    if not isinstance(may_attend, UnpaddedMask):
        return F.scaled_dot_product_attention(
            queries, keys, values, may_attend, dropout
        )
    query_layout, key_layout = may_attend.queries, may_attend.keys
    mask, is_causal = may_attend.for_torch
    out = F.scaled_dot_product_attention(
        query_layout.split_heads(queries),
        key_layout.split_heads(keys),
        key_layout.split_heads(values),
        mask,
        dropout,
        is_causal,
    )
    return query_layout.merge_heads(out)


def _suits_matmul(keys: Float[Tensor, "B H K C"], may_attend: AnyMask | None) -> bool:
    if isinstance(may_attend, UnpaddedMask):
        return may_attend.keys.length <= MAX_KEYS_BY_MATMUL
    if keys.shape[2] > MAX_KEYS_BY_MATMUL:
        return False
    return may_attend is None or bool(may_attend.any(dim=-1).all())


def attention_by_matmul(
    queries: Float[Tensor, "B H Q C"],
    keys: Float[Tensor, "B H K C"],
    values: Float[Tensor, "B H K V"],
    may_attend: AnyMask | None,
    dropout: float,
) -> Float[Tensor, "B H Q V"]:
    """Compute Equation 1 by batched matmuls; the weights are kept for the gradients.

    Every query must have a key it may attend to. The computation is in float32 at
    least: the matmuls are small, and in bfloat16 each new shape has a set-up cost.
    """
    heads = _Attention.apply(  # type: ignore[no-untyped-call]
        queries, keys, values, may_attend, dropout
    )
    return cast(Tensor, heads)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        may_attend: AnyMask | None,
        dropout: float,
    ) -> Tensor:
        ctx.dtype = queries.dtype
        ctx.query_layout, ctx.key_layout = _layouts(queries, keys, may_attend)
        ctx.scale = 1 / math.sqrt(queries.shape[-1])
        ctx.dropout_scale = 1 / (1 - dropout)
        exact = torch.promote_types(queries.dtype, torch.float32)
        queries = _split(ctx.query_layout, queries).to(exact)
        keys, values = (_split(ctx.key_layout, x).to(exact) for x in (keys, values))
        with torch.autocast(queries.device.type, enabled=False):
            scores = _scores(queries, keys, may_attend, ctx.query_layout.num_heads)
            weights = row_softmax(scores)
            mask = draw_mask(weights, dropout) if dropout else None
            dropped = weights
            if mask is not None:
                dropped = apply_mask(weights, mask).mul_(ctx.dropout_scale)
            out = torch.bmm(dropped, values)
        ctx.save_for_backward(queries, keys, values, weights, mask)
        return _merge(ctx.query_layout, out.to(ctx.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        queries, keys, values, weights, mask = ctx.saved_tensors
        grad_out = _split(ctx.query_layout, gradients[0]).to(weights.dtype)
        grad_weights = torch.bmm(grad_out, values.transpose(1, 2))
        dropped = weights
        if mask is not None:
            dropped = apply_mask(weights, mask).mul_(ctx.dropout_scale)
            grad_weights = apply_mask(grad_weights, mask).mul_(ctx.dropout_scale)
        grad_values = torch.bmm(dropped.transpose(1, 2), grad_out)
        grad_scores = softmax_gradient(grad_weights, weights).mul_(ctx.scale)
        grad_queries = torch.bmm(grad_scores, keys)
        grad_keys = torch.bmm(grad_scores.transpose(1, 2), queries)
        return (
            _merge(ctx.query_layout, grad_queries.to(ctx.dtype)),
            _merge(ctx.key_layout, grad_keys.to(ctx.dtype)),
            _merge(ctx.key_layout, grad_values.to(ctx.dtype)),
            *(None, None),
        )


def row_softmax(x: Float[Tensor, "*S K"]) -> Float[Tensor, "*S K"]:
    """Compute the softmax of each row; torch's is many times slower on short rows."""
    if x.shape[-1] >= MIN_KEYS_FOR_TORCH:
        return x.softmax(-1)
    powers = (x - x.amax(-1, keepdim=True)).exp_()
    return powers.mul_(powers.sum(-1, keepdim=True).reciprocal_())


def softmax_gradient(
    gradient: Float[Tensor, "*S K"], out: Float[Tensor, "*S K"]
) -> Float[Tensor, "*S K"]:
    """Return p ∘ (g − p·g) for each row p of ``out`` and g of ``gradient``."""
    if out.shape[-1] >= MIN_KEYS_FOR_TORCH:
        return torch._softmax_backward_data(gradient, out, -1, out.dtype)
    weighted = gradient * out
    return weighted.addcmul_(out, weighted.sum(-1, keepdim=True), value=-1)


@dataclass(frozen=True)
class _Padded:
    """The layout of padded tensors, with the methods of ``Unpadding``."""

    num_heads: int

    def split_heads(self, x: Float[Tensor, "B H L C"]) -> Float[Tensor, "B H L C"]:
        return x

    def merge_heads(self, x: Float[Tensor, "B H L C"]) -> Float[Tensor, "B H L C"]:
        return x


_Layout = Unpadding | _Padded


def _split(layout: _Layout, x: Tensor) -> Float[Tensor, "BH L C"]:
    return layout.split_heads(x).flatten(0, 1)


def _merge(layout: _Layout, x: Float[Tensor, "BH L C"]) -> Tensor:
    return layout.merge_heads(x.view(-1, layout.num_heads, *x.shape[1:]))


def _layouts(
    queries: Tensor, keys: Tensor, may_attend: AnyMask | None
) -> tuple[_Layout, _Layout]:
    if isinstance(may_attend, UnpaddedMask):
        return may_attend.queries, may_attend.keys
    padded = _Padded(queries.shape[1])
    return padded, padded


def _scores(
    queries: Float[Tensor, "BH Q C"],
    keys: Float[Tensor, "BH K C"],
    may_attend: AnyMask | None,
    num_heads: int,
) -> Float[Tensor, "BH Q K"]:
    """Return Q Kᵀ / √d_k, and −∞ where attention is masked."""
    transposed, scale = keys.transpose(1, 2), 1 / math.sqrt(queries.shape[-1])
    if may_attend is None:
        return torch.bmm(queries, transposed).mul_(scale)
    if isinstance(may_attend, UnpaddedMask):
        mask = may_attend.additive.to(queries.dtype)
    else:
        rows = len(queries) // num_heads
        shape = rows, num_heads, queries.shape[1], keys.shape[1]
        mask = additive_mask(may_attend, shape, queries.dtype)
    return torch.baddbmm(mask, queries, transposed, alpha=scale)
