"""Fast ways through the boxes of Figure 1 for training on a CPU, gradients by hand.

What takes time there is less the arithmetic than each walk through memory: a walk saved
is time saved. So units are silenced by multiplying whole numbers, sums and norms go
together, and attention over short sentences is plain products. Each has a readable twin
that it is tested equal to: ``readable_attention``, the second half of
``AddAndNorm.leave``, and ``torch.nn.functional.dropout``.

Letters used for sizes in this file:

    B  batch rows        H  heads                        C  channels of a query or key
    Q  positions that ask          K  positions asked    V  channels of a value
"""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import torch
from jaxtyping import Bool, Float, Int16
from torch import Tensor
from torch.autograd.function import once_differentiable

Kernels = Literal["fast", "readable"]

LEVELS = 1 << 16

LONGEST_BY_PRODUCTS = 512
"""Keys up to which weights of attention are kept whole; their number grows with the
square of the length, and beyond this the memory is worth more than the time."""

WHOLE_NUMBERS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
"""Types whose bits can be multiplied by 0 or 1 in the place of the number itself."""


def trains_on_cpu(x: Tensor) -> bool:
    """Say whether what follows from ``x`` will be asked for gradients, on a CPU."""
    return x.device.type == "cpu" and torch.is_grad_enabled()


def draw_kept(like: Float[Tensor, "*S"], share: float) -> Int16[Tensor, "*S"]:
    """Draw which units stay: 0 with probability ``share``, else 1.

    Each 64-bit random word decides four units, to a resolution of 1/65,536 of the
    wanted share. One random number a unit would take half the time of training.
    """
    words = torch.empty(math.ceil(like.numel() / 4), dtype=torch.int64)
    words.random_(torch.iinfo(torch.int64).min, None)  # all 64 bits
    levels = words.view(torch.int16)[: like.numel()].view(like.shape)
    silenced = min(round(share * LEVELS), LEVELS - 1)
    return levels.ge_(silenced - LEVELS // 2)


def thinned(x: Float[Tensor, "*S"], kept: Int16[Tensor, "*S"]) -> Float[Tensor, "*S"]:
    """Return ``x`` with a 0 where ``kept`` has one, also for what is not a number."""
    whole = WHOLE_NUMBERS.get(x.dtype)
    if whole is None:
        return x * kept
    return x.contiguous().view(whole).mul(kept).view(x.dtype)


def silenced(x: Float[Tensor, "*S"], share: float) -> Float[Tensor, "*S"]:
    """Silence a share of the units of ``x`` and enlarge the others."""
    return cast(Tensor, _Silenced.apply(x, share))  # type: ignore[no-untyped-call]


class _Silenced(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float) -> Tensor:
        kept = draw_kept(x, share)
        ctx.save_for_backward(kept)
        ctx.scale = 1 / (1 - share)
        return thinned(x, kept).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (kept,) = ctx.saved_tensors
        return thinned(gradients[0], kept).mul_(ctx.scale), None


def normed_sum(
    x: Float[Tensor, "B L D"],
    out: Float[Tensor, "B L D"],
    norm: torch.nn.LayerNorm,
    share: float,
) -> Float[Tensor, "B L D"]:
    """Return norm(x + dropout(out)): "Add & Norm" in one, for post-norm."""
    total = _NormedSum.apply(  # type: ignore[no-untyped-call]
        x, out, norm.weight, norm.bias, share, norm.eps
    )
    return cast(Tensor, total)


class _NormedSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        out: Tensor,
        weight: Tensor,
        bias: Tensor,
        share: float,
        eps: float,
    ) -> Tensor:
        ctx.scale = 1 / (1 - share)
        kept = draw_kept(out, share) if share else None
        heard = out if kept is None else thinned(out, kept)
        total = torch.add(x, heard, alpha=ctx.scale)
        normed, mean, rstd = torch.native_layer_norm(
            total, weight.shape, weight, bias, eps
        )
        ctx.save_for_backward(total, weight, bias, mean, rstd, kept)
        return normed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        total, weight, bias, mean, rstd, kept = ctx.saved_tensors
        to_x, to_weight, to_bias = torch.ops.aten.native_layer_norm_backward(
            *(gradients[0].contiguous(), total, weight.shape, mean, rstd),
            *(weight, bias, [True, True, True]),
        )
        to_out = to_x if kept is None else thinned(to_x, kept).mul_(ctx.scale)
        return to_x, to_out, to_weight, to_bias, None, None


def attention_by_products(
    queries: Float[Tensor, "B H Q C"],
    keys: Float[Tensor, "B H K C"],
    values: Float[Tensor, "B H K V"],
    may_attend: Bool[Tensor, "#B #H #Q K"] | None,
    dropout: float,
) -> Float[Tensor, "B H Q V"]:
    """Compute Equation 1 by batched products, the weights kept for the gradients.

    Every query must be allowed to look at something. Scores are added up in float32
    and the softmax is taken in it, whatever the type of the products.
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
        may_attend: Tensor | None,
        dropout: float,
    ) -> Tensor:
        ctx.shape = (*queries.shape[:3], keys.shape[2])  # B H Q K
        ctx.scale = 1 / math.sqrt(queries.shape[-1])
        ctx.enlarged = 1 / (1 - dropout)
        queries, keys, values = (x.flatten(0, 1) for x in (queries, keys, values))
        scores = _scores(queries, keys, may_attend, ctx.shape, ctx.scale)
        weights = torch.softmax(scores, -1, dtype=_exact(scores)).to(values.dtype)
        kept = draw_kept(weights, dropout) if dropout else None
        heard = weights if kept is None else thinned(weights, kept).mul_(ctx.enlarged)
        ctx.save_for_backward(queries, keys, values, weights, kept)
        return torch.bmm(heard, values).view(*ctx.shape[:3], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        queries, keys, values, weights, kept = ctx.saved_tensors
        given = gradients[0].flatten(0, 1)
        to_weights = torch.bmm(given, values.transpose(1, 2))
        heard = weights
        if kept is not None:
            heard = thinned(weights, kept).mul_(ctx.enlarged)
            to_weights = thinned(to_weights, kept).mul_(ctx.enlarged)
        to_values = torch.bmm(heard.transpose(1, 2), given)
        exact = _exact(weights)
        to_scores = torch._softmax_backward_data(
            to_weights.to(exact), weights.to(exact), -1, exact
        )
        to_scores = to_scores.mul_(ctx.scale).to(weights.dtype)
        batch, heads = ctx.shape[:2]
        to_queries, to_keys, to_values = (
            x.view(batch, heads, *x.shape[1:])
            for x in (
                torch.bmm(to_scores, keys),
                torch.bmm(to_scores.transpose(1, 2), queries),
                to_values,
            )
        )
        return to_queries, to_keys, to_values, None, None


def _scores(
    queries: Tensor,
    keys: Tensor,
    may_attend: Tensor | None,
    shape: tuple[int, int, int, int],
    scale: float,
) -> Tensor:
    """Return Q Kᵀ / √d_k [B·H Q K], and −∞ where nothing may be seen."""
    turned = keys.transpose(1, 2)
    if may_attend is None:
        return torch.bmm(queries, turned).mul_(scale)
    hidden = queries.new_zeros(may_attend.shape).masked_fill_(~may_attend, -math.inf)
    hidden = hidden.expand(shape).flatten(0, 1)
    return torch.baddbmm(hidden, queries, turned, alpha=scale)


def _exact(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
