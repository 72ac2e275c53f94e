"""Equation 1, fused; the reference is ``model.attention.scaled_dot_product_attention``.

Letters used for sizes in this file:

    B  batch rows        H  heads                        C  channels of a query or key
    Q  positions that ask          K  positions asked    V  channels of a value
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

from headwise.backends.pytorch.cpu_autograd import draw_kept, thinned, trains_on_cpu
from headwise.backends.pytorch.packing import AnyMask, PackedMask, Packing, hiding

LONGEST_BY_PRODUCTS = 512
"""Keys up to which weights of attention are kept whole; their number grows with the
square of the length, and beyond this the memory is worth more than the time."""

SHORTEST_FOR_TORCH = 16
"""Keys from which torch's softmax works with whole registers."""


def fused_attention(
    queries: Float[Tensor, "B H Q C"],
    keys: Float[Tensor, "B H K C"],
    values: Float[Tensor, "B H K V"],
    may_attend: AnyMask | None,
    dropout: float,
) -> Float[Tensor, "B H Q V"]:
    """Compute what ``scaled_dot_product_attention`` computes, fused.

    torch's kernel goes back slowly on a CPU, where training goes by products instead.
    What is packed comes and goes packed.
    """
    if trains_on_cpu(queries) and _suits_products(keys, may_attend):
        return attention_by_products(queries, keys, values, may_attend, dropout)
    if not isinstance(may_attend, PackedMask):
        return F.scaled_dot_product_attention(
            queries, keys, values, may_attend, dropout
        )
    asking, asked = may_attend.queries, may_attend.keys
    out = F.scaled_dot_product_attention(
        asking.heads_apart(queries).view(asking.shape_apart),
        asked.heads_apart(keys).view(asked.shape_apart),
        asked.heads_apart(values).view(asked.shape_apart),
        may_attend.may_attend,
        dropout,
    )
    return asking.heads_joined(out.flatten(0, 1))


def _suits_products(keys: Float[Tensor, "B H K C"], may_attend: AnyMask | None) -> bool:
    if isinstance(may_attend, PackedMask):
        return may_attend.keys.length <= LONGEST_BY_PRODUCTS
    if keys.shape[2] > LONGEST_BY_PRODUCTS:
        return False
    return may_attend is None or bool(may_attend.any(dim=-1).all())


def attention_by_products(
    queries: Float[Tensor, "B H Q C"],
    keys: Float[Tensor, "B H K C"],
    values: Float[Tensor, "B H K V"],
    may_attend: AnyMask | None,
    dropout: float,
) -> Float[Tensor, "B H Q V"]:
    """Compute Equation 1 by batched products, the weights kept for the gradients.

    Every query must be allowed to look at something. All of it is computed in float32
    at least: the products are small, and each shape in bfloat16 would have to be
    prepared first.
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
        ctx.asking, ctx.asked = _layouts(queries, keys, may_attend)
        ctx.scale = 1 / math.sqrt(queries.shape[-1])
        ctx.enlarged = 1 / (1 - dropout)
        exact = torch.promote_types(queries.dtype, torch.float32)
        queries = ctx.asking.heads_apart(queries).to(exact)
        keys, values = (ctx.asked.heads_apart(x).to(exact) for x in (keys, values))
        with torch.autocast(queries.device.type, enabled=False):
            scores = _scores(queries, keys, may_attend, ctx.asking.num_heads)
            weights = softmax_of_rows(scores)
            kept = draw_kept(weights, dropout) if dropout else None
            heard = weights
            if kept is not None:
                heard = thinned(weights, kept).mul_(ctx.enlarged)
            out = torch.bmm(heard, values)
        ctx.save_for_backward(queries, keys, values, weights, kept)
        return cast(Tensor, ctx.asking.heads_joined(out.to(ctx.dtype)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        queries, keys, values, weights, kept = ctx.saved_tensors
        given = ctx.asking.heads_apart(gradients[0]).to(weights.dtype)
        to_weights = torch.bmm(given, values.transpose(1, 2))
        heard = weights
        if kept is not None:
            heard = thinned(weights, kept).mul_(ctx.enlarged)
            to_weights = thinned(to_weights, kept).mul_(ctx.enlarged)
        to_values = torch.bmm(heard.transpose(1, 2), given)
        to_scores = gradient_of_softmax(to_weights, weights).mul_(ctx.scale)
        to_queries = torch.bmm(to_scores, keys)
        to_keys = torch.bmm(to_scores.transpose(1, 2), queries)
        return (
            ctx.asking.heads_joined(to_queries.to(ctx.dtype)),
            ctx.asked.heads_joined(to_keys.to(ctx.dtype)),
            ctx.asked.heads_joined(to_values.to(ctx.dtype)),
            *(None, None),
        )


def softmax_of_rows(x: Float[Tensor, "*S K"]) -> Float[Tensor, "*S K"]:
    """Take the softmax of each row; torch's own is many times slower for short ones."""
    if x.shape[-1] >= SHORTEST_FOR_TORCH:
        return x.softmax(-1)
    powers = (x - x.amax(-1, keepdim=True)).exp_()
    return powers.mul_(powers.sum(-1, keepdim=True).reciprocal_())


def gradient_of_softmax(
    gradient: Float[Tensor, "*S K"], out: Float[Tensor, "*S K"]
) -> Float[Tensor, "*S K"]:
    """Return p ∘ (g − p·g) for each row p of ``out`` and g of ``gradient``."""
    if out.shape[-1] >= SHORTEST_FOR_TORCH:
        return torch._softmax_backward_data(gradient, out, -1, out.dtype)
    weighed = gradient * out
    return weighed.addcmul_(out, weighed.sum(-1, keepdim=True), value=-1)


@dataclass(frozen=True)
class _Padded:
    """The layout of what is not packed, asked as a ``Packing`` is."""

    num_heads: int

    def heads_apart(self, x: Float[Tensor, "B H L C"]) -> Float[Tensor, "BH L C"]:
        return x.flatten(0, 1)

    def heads_joined(self, x: Float[Tensor, "BH L C"]) -> Float[Tensor, "B H L C"]:
        return x.view(-1, self.num_heads, *x.shape[1:])


def _layouts(
    queries: Tensor, keys: Tensor, may_attend: AnyMask | None
) -> tuple[Packing | _Padded, Packing | _Padded]:
    if isinstance(may_attend, PackedMask):
        return may_attend.queries, may_attend.keys
    padded = _Padded(queries.shape[1])
    return padded, padded


def _scores(
    queries: Float[Tensor, "BH Q C"],
    keys: Float[Tensor, "BH K C"],
    may_attend: AnyMask | None,
    num_heads: int,
) -> Float[Tensor, "BH Q K"]:
    """Return Q Kᵀ / √d_k, and −∞ where nothing may be seen."""
    turned, scale = keys.transpose(1, 2), 1 / math.sqrt(queries.shape[-1])
    if may_attend is None:
        return torch.bmm(queries, turned).mul_(scale)
    if isinstance(may_attend, PackedMask):
        hidden = may_attend.hidden.to(queries.dtype)
    else:
        rows = len(queries) // num_heads
        shape = rows, num_heads, queries.shape[1], keys.shape[1]
        hidden = hiding(may_attend, shape, queries.dtype)
    return torch.baddbmm(hidden, queries, turned, alpha=scale)
