"""Fused dropout and Add & Norm for training on a CPU, with hand-written gradients.

Training there is memory-bound: so add, dropout and LayerNorm are fused, and dropout
masks are applied as integers. The references are ``model.add_and_norm.add_and_norm``
and ``torch.nn.functional.dropout``; ``tests/backends/pytorch/test_cpu_autograd.py``
holds values and gradients equal. Attention has a file of its own,
:mod:`headwise.backends.pytorch.fused_attention`.

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
"""Values of the 16 random bits that decide about one unit."""

INTEGER_VIEWS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
"""Types whose bits can be multiplied by 0 or 1 as integers."""


def trains_on_cpu(x: Tensor) -> bool:
    """Tell whether the hand-written gradients pay for functions of ``x``.

    They do on a CPU, unless torch.compile fuses the functions itself.
    """
    if torch.compiler.is_compiling():
        return False
    return x.device.type == "cpu" and torch.is_grad_enabled()


def draw_mask(like: Float[Tensor, "*S"], rate: float) -> Int16[Tensor, "*S"]:
    """Draw a dropout mask: 0 (dropped) with probability ``rate``, else 1.

    Each 64-bit random word decides about four units, so the rate has a resolution of
    1/65,536. One random number per unit would take half the time of training.
    """
    words = torch.empty(math.ceil(like.numel() / 4), dtype=torch.int64)
    words.random_(torch.iinfo(torch.int64).min, None)  # all 64 bits
    levels = words.view(torch.int16)[: like.numel()].view(like.shape)
    dropped = min(round(rate * LEVELS), LEVELS - 1)
    return levels.ge_(dropped - LEVELS // 2)


def apply_mask(
    x: Float[Tensor, "*S"], mask: Int16[Tensor, "*S"]
) -> Float[Tensor, "*S"]:
    """Return ``x`` with 0 where ``mask`` is 0, even for NaN and infinity."""
    integer = INTEGER_VIEWS.get(x.dtype)
    if integer is None:
        return x * mask
    return x.contiguous().view(integer).mul(mask).view(x.dtype)


def masked_dropout(x: Float[Tensor, "*S"], rate: float) -> Float[Tensor, "*S"]:
    """Drop units of ``x`` with probability ``rate``, and scale the others."""
    return cast(Tensor, _Dropout.apply(x, rate))  # type: ignore[no-untyped-call]


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        mask = draw_mask(x, rate)
        ctx.save_for_backward(mask)
        ctx.scale = 1 / (1 - rate)
        return apply_mask(x, mask).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (mask,) = ctx.saved_tensors
        return apply_mask(gradients[0], mask).mul_(ctx.scale), None


def fast_dropout(x: Float[Tensor, "*S"], rate: float) -> Float[Tensor, "*S"]:
    """Compute ``torch.nn.functional.dropout`` with masks that are drawn faster."""
    if not rate:
        return x
    if x.device.type == "cpu" and not torch.compiler.is_compiling():
        return masked_dropout(x, rate)
    return F.dropout(x, rate)


def dropout_in_autocast(x: Float[Tensor, "*S"], rate: float) -> Float[Tensor, "*S"]:
    """Do the same at the foot of a stack, and cast to bfloat16 under autocast.

    Autocast leaves embeddings in float32 on a CPU; in bfloat16 the residual stream
    takes half the memory in all blocks.
    """
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        x = x.to(torch.get_autocast_dtype("cpu"))
    return fast_dropout(x, rate)


def fused_add_and_norm(
    x: Float[Tensor, "B L D"],
    out: Float[Tensor, "B L D"],
    norm: torch.nn.LayerNorm,
    dropout: Dropout,
) -> Float[Tensor, "B L D"]:
    """Compute ``add_and_norm``, fused while training on a CPU."""
    if trains_on_cpu(x) and x.dtype == out.dtype:
        return add_dropout_norm(x, out, norm, dropout.p if dropout.training else 0.0)
    return add_and_norm(x, out, norm, dropout)


def add_dropout_norm(
    x: Float[Tensor, "B L D"],
    out: Float[Tensor, "B L D"],
    norm: torch.nn.LayerNorm,
    rate: float,
) -> Float[Tensor, "B L D"]:
    """Return norm(x + dropout(out)), fused: "Add & Norm" of post-norm models."""
    total = _AddDropoutNorm.apply(  # type: ignore[no-untyped-call]
        x, out, norm.weight, norm.bias, rate, norm.eps
    )
    return cast(Tensor, total)


class _AddDropoutNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        out: Tensor,
        weight: Tensor,
        bias: Tensor,
        rate: float,
        eps: float,
    ) -> Tensor:
        ctx.scale = 1 / (1 - rate)
        mask = draw_mask(out, rate) if rate else None
        dropped = out if mask is None else apply_mask(out, mask)
        total = torch.add(x, dropped, alpha=ctx.scale)
        normed, mean, rstd = torch.native_layer_norm(
            total, weight.shape, weight, bias, eps
        )
        ctx.save_for_backward(total, weight, bias, mean, rstd, mask)
        return normed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        total, weight, bias, mean, rstd, mask = ctx.saved_tensors
        grad_x, grad_weight, grad_bias = torch.ops.aten.native_layer_norm_backward(
            *(gradients[0].contiguous(), total, weight.shape, mean, rstd),
            *(weight, bias, [True, True, True]),
        )
        grad_out = grad_x
        if mask is not None:
            grad_out = apply_mask(grad_x, mask).mul_(ctx.scale)
        return grad_x, grad_out, grad_weight, grad_bias, None, None
