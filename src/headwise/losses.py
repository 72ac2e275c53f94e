"""Cross-entropy with label smoothing (Section 5.4), as sums over real tokens.

Sums, not means: a mean is taken once, over all the tokens of a step, however many
batches or devices they came from.

Letters used for sizes: N target tokens, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

ROWS_AT_ONCE = 512
"""Target tokens scored at a time by :func:`projected_cross_entropy`."""


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Sum −Σ q(w) ln p(w) over the rows of ``logits`` [N V].

    ``q`` gives 1 − ε to the right word and spreads ε over the whole vocabulary, the
    right word included (Szegedy et al. 2016, Section 7); ε = 0 is −ln p(right word).
    """
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


def projected_cross_entropy(
    hidden: Tensor,
    vectors: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
) -> Tensor:
    """Compute ``cross_entropy(hidden @ vectors.T + bias, …)`` without all the logits.

    ``hidden`` [N D] is scored against ``vectors`` [V D] a few rows at a time, and the
    gradients are made while the scores are at hand; so memory does not grow with
    N × V, and each score is visited while it is in the cache.
    """
    loss: Tensor = _ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, vectors, bias, targets, smoothing, torch.is_grad_enabled()
    )
    return loss


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        vectors: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        wants_gradient: bool,
    ) -> Tensor:
        dtype = _dtype_of_products(hidden)
        seen, table = hidden.to(dtype), vectors.to(dtype)
        loss = hidden.new_zeros((), dtype=torch.promote_types(dtype, torch.float32))
        to_hidden = torch.empty_like(hidden) if wants_gradient else None
        to_vectors = torch.zeros_like(vectors) if wants_gradient else None
        to_bias = None if bias is None else torch.zeros_like(bias)
        with torch.autocast(hidden.device.type, enabled=False):
            for start in range(0, len(hidden), ROWS_AT_ONCE):
                chosen = slice(start, start + ROWS_AT_ONCE)
                logits = F.linear(seen[chosen], table).to(loss.dtype)
                if bias is not None:
                    logits += bias
                right = targets[chosen, None]
                loss += _sum_of_losses(logits, right, smoothing)
                if to_hidden is None or to_vectors is None:
                    continue
                wrong = _gradient_at_logits(logits, right, smoothing)
                if to_bias is not None:
                    to_bias += wrong.sum(0)
                wrong = wrong.to(dtype)
                to_hidden[chosen] = wrong @ table
                to_vectors += wrong.T @ seen[chosen]
        ctx.save_for_backward(to_hidden, to_vectors, to_bias)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *scales: Tensor) -> Any:
        (scale,) = scales
        scaled = (None if g is None else g * scale for g in ctx.saved_tensors)
        return *scaled, None, None, None


def _sum_of_losses(logits: Tensor, right: Tensor, smoothing: float) -> Tensor:
    log_total = logits.logsumexp(dim=1)
    loss = log_total - (1 - smoothing) * logits.gather(1, right).squeeze(1)
    if smoothing:
        loss -= smoothing * logits.mean(dim=1)
    return loss.sum()


def _dtype_of_products(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return hidden.dtype


def _gradient_at_logits(logits: Tensor, right: Tensor, smoothing: float) -> Tensor:
    """Return softmax(logits) − q, in the place of ``logits``."""
    torch.softmax(logits, dim=1, out=logits)
    if smoothing:
        logits -= smoothing / logits.shape[1]
    return logits.scatter_add_(1, right, logits.new_full(right.shape, -(1 - smoothing)))
