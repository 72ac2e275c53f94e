"""Word-level knowledge distillation: a student learns the distribution of teachers.

For each target token, with the student's distribution p and that of the teachers, t:

    (1 - w) CE(p)  +  w KL(t ‖ p)

CE is the cross-entropy with label smoothing, and KL(t ‖ p), which is the teachers'
cross-entropy up to a constant, is summed over the vocabulary (Hinton et al. 2015, with
temperature 1; Kim and Rush 2016, Section 3.1, of each word given the reference before
it). t is the mean of the teachers' distributions, and a constant.

Letters used for sizes: N target tokens, D model width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from headwise.losses import BYTES_AT_ONCE, cross_entropy, matmul_dtype


class DistillationLoss(NamedTuple):
    """Sums over the target tokens, in nats."""

    total: Tensor
    """The loss, which autograd differentiates."""

    cross_entropy: Tensor
    """CE in it, before its weight."""

    kl_divergence: Tensor
    """KL(t ‖ p) in it, before its weight."""


class Projection(NamedTuple):
    """What logits are the product of: ``hidden @ vectors.T + bias``."""

    hidden: Tensor
    """[N D]"""

    vectors: Tensor
    """[V D]"""

    bias: Tensor | None
    """[V]"""

    def to(self, dtype: torch.dtype) -> Projection:
        """Return all tensors in another number format."""
        bias = None if self.bias is None else self.bias.to(dtype)
        return Projection(self.hidden.to(dtype), self.vectors.to(dtype), bias)

    def log_probabilities(self, rows: slice) -> Tensor:
        """Return ln p of some rows, in float32 or better."""
        scores = F.linear(self.hidden[rows], self.vectors, self.bias)
        exact = torch.promote_types(scores.dtype, torch.float32)
        return scores.log_softmax(dim=1, dtype=exact)


def distillation_loss(
    logits: Tensor,
    teacher_logits: Sequence[Tensor],
    targets: Tensor,
    smoothing: float,
    weight: float,
) -> DistillationLoss:
    """Return the loss of the logits [N V] of a student, summed over the rows."""
    log_t = _mean([each.log_softmax(dim=1) for each in teacher_logits])
    ce = cross_entropy(logits, targets, smoothing)
    kl = F.kl_div(logits.log_softmax(dim=1), log_t, reduction="sum", log_target=True)
    return DistillationLoss((1 - weight) * ce + weight * kl, ce.detach(), kl.detach())


def projected_distillation_loss(
    student: Projection,
    teachers: Sequence[Projection],
    targets: Tensor,
    smoothing: float,
    weight: float,
) -> DistillationLoss:
    """Compute :func:`distillation_loss` a few rows at a time.

    The gradients are computed in the forward pass, as in
    :func:`headwise.losses.projected_cross_entropy`; teachers get none.
    """
    return DistillationLoss(
        *_ProjectedDistillationLoss.apply(  # type: ignore[no-untyped-call]
            *student, teachers, targets, smoothing, weight
        )
    )


def _mean(log_p: Sequence[Tensor]) -> Tensor:
    """Return ln of the mean of distributions."""
    if len(log_p) == 1:
        return log_p[0]
    return torch.stack([*log_p]).logsumexp(dim=0) - math.log(len(log_p))


class _ProjectedDistillationLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        vectors: Tensor,
        bias: Tensor | None,
        teachers: Sequence[Projection],
        targets: Tensor,
        smoothing: float,
        weight: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        dtype = matmul_dtype(hidden)
        exact = torch.promote_types(dtype, torch.float32)
        with torch.autocast(hidden.device.type, enabled=False):
            student = Projection(hidden, vectors, bias).to(dtype)
            given = [each.to(dtype) for each in teachers]
            to_hidden = torch.empty_like(student.hidden)
            to_vectors = torch.zeros_like(vectors, dtype=exact)
            to_bias = None if bias is None else torch.zeros_like(bias, dtype=exact)
            ce, kl = hidden.new_zeros((2,), dtype=exact)
            words = len(vectors)
            num_rows = max(1, BYTES_AT_ONCE // (4 * words * (2 + len(given))))
            for start in range(0, len(hidden), num_rows):
                rows = slice(start, start + num_rows)
                log_t = _mean([each.log_probabilities(rows) for each in given])
                log_p = student.log_probabilities(rows)
                right = targets[rows, None]
                ce -= (1 - smoothing) * log_p.gather(1, right).sum()
                ce -= smoothing / words * log_p.sum()
                kl += F.kl_div(log_p, log_t, reduction="sum", log_target=True)
                # Both terms are cross-entropies: p minus what is wanted instead.
                grad = log_p.exp_().sub_(log_t.exp_(), alpha=weight)
                grad -= (1 - weight) * smoothing / words
                share = -(1 - weight) * (1 - smoothing)
                grad.scatter_add_(1, right, grad.new_full(right.shape, share))
                to_scores = grad.to(dtype)
                to_hidden[rows] = to_scores @ student.vectors
                to_vectors += to_scores.T @ student.hidden[rows]
                if to_bias is not None:
                    to_bias += grad.sum(0)
        ctx.save_for_backward(to_hidden, to_vectors, to_bias)
        ctx.mark_non_differentiable(ce, kl)
        return (1 - weight) * ce + weight * kl, ce, kl

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *scales: Tensor) -> Any:
        scale, *_ = scales
        scaled = (None if g is None else g * scale for g in ctx.saved_tensors)
        return *scaled, None, None, None, None
