"""Cross-entropy with label smoothing (Section 5.4), summed over tokens.

Sums, not means: the mean is taken once, over all tokens of an update, whatever the
number of micro-batches or devices.

Letters used for sizes: N target tokens, D model width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

BYTES_AT_ONCE = 16 << 20
"""Memory for the logits of one chunk in :func:`projected_cross_entropy`."""


ROW_MULTIPLE = 128
"""Chunks have a multiple of so many rows."""


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Return the sum of −Σ q(w) ln p(w) over the rows of ``logits`` [N V].

    ``q`` gives 1 − ε to the label and spreads ε over the whole vocabulary, the label
    included (Szegedy et al. 2016, Section 7); ε = 0 is −ln p(label).
    """
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


def projected_cross_entropy(
    hidden: Tensor,
    vectors: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
) -> Tensor:
    """Compute ``cross_entropy(hidden @ vectors.T + bias, …)`` in chunks.

    ``hidden`` [N D] is projected onto ``vectors`` [V D] a few rows at a time, and the
    gradients are computed in the forward pass, while the logits are in cache; so memory
    does not grow with N × V.

    The uniform part of label smoothing is the same for all rows and words, and is
    subtracted from the results rather than from each logit.
    """
    loss: Tensor = _ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, vectors, bias, targets, smoothing, torch.is_grad_enabled()
    )
    return loss


def chunked_cross_entropy(
    hidden: Tensor,
    vectors: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    counted: Tensor,
    smoothing: float,
    *,
    pieces: int,
    piece: Callable[..., tuple[Tensor, ...]],
) -> Tensor:
    """Compute :func:`projected_cross_entropy` with static shapes, for torch.compile.

    Rows where ``counted`` [N] is False are ignored. There are ``pieces`` equal chunks,
    each computed by ``piece``: :func:`chunk_with_gradients`, or its compiled version.
    Nothing synchronises the GPU.
    """
    loss: Tensor = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, vectors, bias, targets, counted, smoothing, pieces, piece
    )
    return loss


def chunk_with_gradients(
    hidden: Tensor,
    vectors: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    counted: Tensor,
    smoothing: float,
) -> tuple[Tensor, ...]:
    """Return the loss of a chunk, and its gradients for hidden, vectors and bias."""
    scores = F.linear(hidden, vectors, bias)
    exact = scores.to(torch.promote_types(scores.dtype, torch.float32))
    words = exact.shape[1]
    is_right = torch.arange(words, device=targets.device) == targets[:, None]
    wanted = (1 - smoothing) * is_right.to(exact.dtype) + smoothing / words
    logarithm = exact.logsumexp(dim=1, keepdim=True)
    weights = counted.to(exact.dtype)
    loss = ((logarithm[:, 0] - (wanted * exact).sum(dim=1)) * weights).sum()
    back = ((exact - logarithm).exp() - wanted) * weights[:, None]
    to_scores = back.to(scores.dtype)
    return loss, to_scores @ vectors, to_scores.T @ hidden, back.sum(dim=0)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        vectors: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        counted: Tensor,
        smoothing: float,
        pieces: int,
        piece: Callable[..., tuple[Tensor, ...]],
    ) -> Tensor:
        dtype = matmul_dtype(hidden)
        exact = torch.promote_types(dtype, torch.float32)
        with torch.autocast(hidden.device.type, enabled=False):
            seen, table = hidden.to(dtype), vectors.to(dtype)
            given = None if bias is None else bias.to(dtype)
            to_hidden = torch.empty_like(seen)
            to_vectors = torch.zeros_like(vectors, dtype=exact)
            to_bias = None if bias is None else torch.zeros_like(bias, dtype=exact)
            loss = hidden.new_zeros((), dtype=exact)
            whole = (seen, targets, counted, to_hidden)
            parts = (each.tensor_split(pieces) for each in whole)
            for rows, right, real, back in zip(*parts, strict=True):
                found = piece(rows, table, given, right, real, smoothing)
                loss += found[0]
                back.copy_(found[1])
                to_vectors += found[2]
                if to_bias is not None:
                    to_bias += found[3]
        ctx.save_for_backward(to_hidden, to_vectors, to_bias)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *scales: Tensor) -> Any:
        (scale,) = scales
        scaled = (None if g is None else g * scale for g in ctx.saved_tensors)
        return *scaled, None, None, None, None, None


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
        dtype = matmul_dtype(hidden)
        exact = torch.promote_types(dtype, torch.float32)
        with torch.autocast(hidden.device.type, enabled=False):
            seen, table = hidden.to(dtype), vectors.to(dtype)
            given = None if bias is None else bias.to(dtype)
            to_hidden = torch.empty_like(seen) if wants_gradient else None
            to_vectors = torch.zeros_like(vectors, dtype=exact)
            to_bias = None if bias is None else torch.zeros_like(bias, dtype=exact)
            loss = hidden.new_zeros((), dtype=exact)
            for chosen in _pieces(len(seen), len(table), seen.element_size()):
                rows, count = _pad_rows(seen[chosen], len(seen))
                scores = F.linear(rows, table, given)
                found = _softmax_to_gradients(
                    scores[:count], targets[chosen], smoothing
                )
                loss += found
                if to_hidden is not None:
                    scores[count:] = 0
                    to_hidden[chosen] = (scores @ table)[:count]
                    to_vectors += scores.T @ rows
                    if to_bias is not None:
                        to_bias += scores.sum(0, dtype=exact)
            if not loss.isfinite():  # a probability may have underflowed
                loss = _log_domain_loss(seen, table, given, targets, smoothing)
            if smoothing:
                share = smoothing / len(table)
                rows = seen.sum(0, dtype=exact)
                words = table.sum(0, dtype=exact)
                loss -= share * (rows @ words)
                if given is not None:
                    loss -= share * len(seen) * given.sum(dtype=exact)
                if to_hidden is not None:
                    to_hidden -= (share * words).to(dtype)
                    to_vectors -= share * rows
                    if to_bias is not None:
                        to_bias -= share * len(seen)
        ctx.save_for_backward(to_hidden, to_vectors, to_bias)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *scales: Tensor) -> Any:
        (scale,) = scales
        scaled = (None if g is None else g * scale for g in ctx.saved_tensors)
        return *scaled, None, None, None


def _log_domain_loss(
    hidden: Tensor,
    table: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
) -> Tensor:
    """Compute the loss of :func:`_softmax_to_gradients` in the log domain."""
    exact = torch.promote_types(hidden.dtype, torch.float32)
    loss = hidden.new_zeros((), dtype=exact)
    for chosen in _pieces(len(hidden), len(table), hidden.element_size()):
        scores = F.linear(hidden[chosen], table, bias).to(exact)
        right = scores.take(_label_indices(targets[chosen], scores.shape[1]))
        loss += (scores.logsumexp(1) - (1 - smoothing) * right).sum()
    return loss


def _pieces(rows: int, words: int, bytes_each: int) -> Iterator[slice]:
    at_once = max(1, BYTES_AT_ONCE // (words * bytes_each))
    at_once -= at_once % ROW_MULTIPLE if at_once > ROW_MULTIPLE else 0
    return (slice(start, start + at_once) for start in range(0, rows, at_once))


def _pad_rows(rows: Tensor, of_all: int) -> tuple[Tensor, int]:
    """Pad with empty rows, so that few shapes occur; return also the number of rows.

    Matmul libraries set up anew for each new shape.
    """
    missing = -len(rows) % ROW_MULTIPLE if of_all > ROW_MULTIPLE else 0
    return (F.pad(rows, (0, 0, 0, missing)) if missing else rows), len(rows)


def matmul_dtype(hidden: Tensor) -> torch.dtype:
    """Return the type in which ``hidden`` is multiplied: autocast's, or its own."""
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return hidden.dtype


def _softmax_to_gradients(scores: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Replace ``scores`` by softmax(scores), minus (1 − ε) at the label, in place.

    Returns the sum over rows of ln Σ exp(scores) − (1 − ε) score of the label.
    """
    exact = torch.promote_types(scores.dtype, torch.float32)
    right = _label_indices(targets, scores.shape[1])
    score = scores.take(right).to(exact)
    torch.softmax(scores, dim=1, out=scores)
    probability = scores.take(right).to(exact)
    scores.put_(right, (probability - (1 - smoothing)).to(scores.dtype))
    return (smoothing * score - probability.log()).sum()


def _label_indices(targets: Tensor, words: int) -> Tensor:
    """Return the flat indices of the labels in scores [N V]."""
    return torch.arange(len(targets), device=targets.device) * words + targets
