"""Losses that hold two passes of each example together: R-Drop and SimCut.

A model runs each example twice, and predicts p in the first pass and q in the second.
The Kullback-Leibler divergence between them, summed over the vocabulary, is part of the
loss of each target token:

    R-Drop (Liang et al. 2021, Equations 1 to 4, halved): dropout alone differs
        (CE(p) + CE(q)) / 2  +  α / 2 · (KL(p ‖ q) + KL(q ‖ p)) / 2
    SimCut (Gao et al. 2022, Section 3): tokens of the second pass are cut too
        CE(p)  +  α · KL(p ‖ q)

CE is the cross-entropy with label smoothing; p and q in the divergence are not
smoothed. Both papers train p and q by the divergence: neither is a constant target. The
loss of R-Drop is half of the paper's, so that it is the mean over both passes: without
dropout it is that of one pass, and learning rates and the clipping of gradients keep
their meaning; α has that of the paper.

Letters used for sizes: N target tokens, D model width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from headwise.losses import BYTES_AT_ONCE, cross_entropy, matmul_dtype


@dataclass(frozen=True, slots=True)
class Consistency:
    """How the two passes of a batch are held together."""

    weight: float
    """Factor of the divergence: more than 0."""

    both_ways: bool
    """Whether the loss is the mean over both passes and both divergences, as in R-Drop;
    otherwise the cross-entropy of the first and KL(p ‖ q), as in SimCut."""

    cut_rate: float = 0.0
    """Rate at which tokens of the second pass are cut: 0 or more, less than 1."""

    @classmethod
    def r_drop(cls, alpha: float) -> Self:
        """Return R-Drop with the weight α of its Equation 4."""
        return cls(weight=alpha / 2, both_ways=True)

    @classmethod
    def simcut(cls, alpha: float, cut_rate: float) -> Self:
        """Return SimCut with its weight α and its rate p_cut."""
        return cls(weight=alpha, both_ways=False, cut_rate=cut_rate)

    @property
    def loss_weights(self) -> tuple[float, float]:
        """Factors of the cross-entropies of both passes."""
        return (0.5, 0.5) if self.both_ways else (1.0, 0.0)

    @property
    def kl_weights(self) -> tuple[float, float]:
        """Factors of KL(p ‖ q) and KL(q ‖ p)."""
        half = self.weight / 2
        return (half, half) if self.both_ways else (self.weight, 0.0)


class TwoPassLoss(NamedTuple):
    """Sums over the target tokens of one pass, in nats."""

    total: Tensor
    """The loss, which autograd differentiates."""

    kl_divergence: Tensor
    """The divergence in it, before its weight; for R-Drop the mean of both."""


def two_pass_loss(
    first: Tensor,
    second: Tensor,
    targets: Tensor,
    smoothing: float,
    consistency: Consistency,
) -> TwoPassLoss:
    """Return the loss of the logits [N V] of both passes, summed over the rows."""
    log_p, log_q = first.log_softmax(dim=1), second.log_softmax(dim=1)
    passes = zip(consistency.loss_weights, (first, second), strict=True)
    loss = sum(
        (
            weight * cross_entropy(logits, targets, smoothing)
            for weight, logits in passes
        ),
        start=first.new_zeros(()),
    )
    forward, back = consistency.kl_weights
    weighted = forward * _divergence(log_p, log_q) + back * _divergence(log_q, log_p)
    return TwoPassLoss(loss + weighted, weighted.detach() / consistency.weight)


def _divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return KL(p ‖ q), summed over rows."""
    return F.kl_div(log_q, log_p, reduction="sum", log_target=True)


def projected_two_pass_loss(
    first: Tensor,
    second: Tensor,
    vectors: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    consistency: Consistency,
) -> TwoPassLoss:
    """Compute :func:`two_pass_loss` of ``hidden @ vectors.T + bias`` in chunks.

    The vectors of both passes, ``first`` and ``second`` [N D], are projected onto
    ``vectors`` [V D] a few rows at a time, and the gradients are computed in the
    forward pass, as in :func:`headwise.losses.projected_cross_entropy`.
    """
    total, divergence = _ProjectedTwoPassLoss.apply(  # type: ignore[no-untyped-call]
        *(first, second, vectors, bias, targets, smoothing, consistency)
    )
    return TwoPassLoss(total, divergence)


class _ProjectedTwoPassLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        vectors: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        consistency: Consistency,
    ) -> tuple[Tensor, Tensor]:
        dtype = matmul_dtype(first)
        exact = torch.promote_types(dtype, torch.float32)
        with torch.autocast(first.device.type, enabled=False):
            seen, table = (first.to(dtype), second.to(dtype)), vectors.to(dtype)
            given = None if bias is None else bias.to(dtype)
            to_hidden = [torch.empty_like(each) for each in seen]
            to_vectors = torch.zeros_like(vectors, dtype=exact)
            to_bias = None if bias is None else torch.zeros_like(bias, dtype=exact)
            loss = first.new_zeros((), dtype=exact)
            divergence = first.new_zeros((), dtype=exact)
            for rows in _chunks(len(first), len(table), seen[0].element_size()):
                scores = [F.linear(each[rows], table, given) for each in seen]
                found = _scores_to_gradients(
                    *(scores, targets[rows], smoothing, consistency)
                )
                loss += found.total
                divergence += found.kl_divergence
                for hidden, to, grad in zip(seen, to_hidden, scores, strict=True):
                    to[rows] = grad @ table
                    to_vectors += grad.T @ hidden[rows]
                    if to_bias is not None:
                        to_bias += grad.sum(0, dtype=exact)
        ctx.save_for_backward(*to_hidden, to_vectors, to_bias)
        ctx.mark_non_differentiable(divergence)
        return loss, divergence

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *scales: Tensor) -> Any:
        scale, _ = scales
        scaled = (None if g is None else g * scale for g in ctx.saved_tensors)
        return *scaled, None, None, None


def _chunks(rows: int, words: int, bytes_each: int) -> Iterator[slice]:
    at_once = max(1, BYTES_AT_ONCE // (4 * words * bytes_each))
    return (slice(start, start + at_once) for start in range(0, rows, at_once))


def _scores_to_gradients(
    scores: list[Tensor],
    targets: Tensor,
    smoothing: float,
    consistency: Consistency,
) -> TwoPassLoss:
    """Replace the scores of both passes by their gradients, in place; return the loss.

    With d = ln p - ln q, that of KL(p ‖ q) is p (d - KL(p ‖ q)) in the first pass, and
    q - p in the second. All terms with p are taken together, as each walk through the
    scores costs time.
    """
    exact = torch.promote_types(scores[0].dtype, torch.float32)
    logs = [each.log_softmax(dim=1, dtype=exact) for each in scores]
    right = targets[:, None]
    loss = logs[0].new_zeros(())
    for share, log_p in zip(consistency.loss_weights, logs, strict=True):
        if share:
            loss -= share * (1 - smoothing) * log_p.gather(1, right).sum()
        if share and smoothing:
            loss -= share * smoothing / log_p.shape[1] * log_p.sum()
    lead = logs[0] - logs[1]
    probabilities = [each.exp_() for each in logs]
    kl = [torch.linalg.vecdot(each, lead)[:, None] for each in probabilities]
    kl[1].neg_()
    divergence = loss.new_zeros(())
    for this, other, sign in ((0, 1, 1.0), (1, 0, -1.0)):
        share = consistency.loss_weights[this]
        own, back = consistency.kl_weights[this], consistency.kl_weights[other]
        divergence += own * kl[this].sum()
        grad = torch.add(share + back - own * kl[this], lead, alpha=sign * own)
        grad.mul_(probabilities[this])
        if back:
            grad.sub_(probabilities[other], alpha=back)
        if share and smoothing:
            grad -= share * smoothing / grad.shape[1]
        if share:
            grad.scatter_add_(
                1, right, grad.new_full(right.shape, -share * (1 - smoothing))
            )
        scores[this].copy_(grad)
    return TwoPassLoss(loss + divergence, divergence / consistency.weight)
