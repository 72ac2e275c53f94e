"""Fast ways through the boxes of Figure 1 for training on a CPU, gradients by hand.

What takes time there is less the arithmetic than each walk through memory: a walk saved
is time saved. So units are silenced by multiplying whole numbers, and sums and norms go
together. Each has a readable twin that it is tested equal to: the second half of
``AddAndNorm.leave``, and ``torch.nn.functional.dropout``. Attention has a file of its
own, :mod:`headwise.backends.pytorch.fused_attention`.

Letters used for sizes: S any shape, B batch rows, L positions, D model width.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from jaxtyping import Float, Int16
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from headwise.model.add_and_norm import add_and_norm
from headwise.model.dropout import Dropout

LEVELS = 1 << 16

WHOLE_NUMBERS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
"""Types whose bits can be multiplied by 0 or 1 in the place of the number itself."""


def trains_on_cpu(x: Tensor) -> bool:
    """Say whether gradients by hand pay for what follows from ``x``.

    They do on a CPU, unless torch's compiler makes something of its own.
    """
    if torch.compiler.is_compiling():
        return False
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


def fast_dropout(x: Float[Tensor, "*S"], share: float) -> Float[Tensor, "*S"]:
    """Do what ``torch.nn.functional.dropout`` does; masks are drawn in another way."""
    if not share:
        return x
    if x.device.type == "cpu" and not torch.compiler.is_compiling():
        return silenced(x, share)
    return F.dropout(x, share)


def dropout_in_autocast(x: Float[Tensor, "*S"], share: float) -> Float[Tensor, "*S"]:
    """Do the same at the foot of a stack, which autocast leaves in float32 on a CPU.

    In bfloat16 what passes from block to block is half as long everywhere.
    """
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        x = x.to(torch.get_autocast_dtype("cpu"))
    return fast_dropout(x, share)


def fused_add_and_norm(
    x: Float[Tensor, "B L D"],
    out: Float[Tensor, "B L D"],
    norm: torch.nn.LayerNorm,
    dropout: Dropout,
) -> Float[Tensor, "B L D"]:
    """Do what ``add_and_norm`` does; while training on a CPU, fused."""
    if trains_on_cpu(x) and x.dtype == out.dtype:
        return normed_sum(x, out, norm, dropout.share if dropout.training else 0.0)
    return add_and_norm(x, out, norm, dropout)


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
