"""Top-k over the vocabulary: the best next tokens of each row, with their ln p.

Letters used for sizes in this file:

    R  rows of the batch      V  vocabulary      K  tokens kept for each row
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from headwise.decoding.incremental_decoder import IncrementalDecoder, TopKDecoder
from headwise.decoding.logits_processors import apply_rules
from headwise.decoding.rule_context import Rule, RuleContext
from headwise.decoding.topk_native import has_native_topk, native_topk
from headwise.errors import NumericsError

GROUP = 32
"""Tokens of a group; the maxima of groups are compared first."""

EXP_SAFE = 80.0
"""Logits up to this absolute value go through exp without a shift."""

StepTopK = Callable[
    [Tensor, Any, int, tuple[int, ...]],
    tuple[Tensor, Tensor, Any],
]
"""(tokens [R], state, k, forbidden) to (ln p [R K], ids [R K], next state)."""


def topk_step_of(decoder: IncrementalDecoder[Any]) -> StepTopK:
    """Return the decoder's own ``step_topk``, or top-k over the logits of ``step``.

    A search asks once, before its loop: ``isinstance`` of a protocol takes as long as
    a small matrix product.
    """
    if isinstance(decoder, TopKDecoder):
        return decoder.step_topk

    def step_topk(
        tokens: Tensor, state: Any, k: int, forbidden: tuple[int, ...]
    ) -> tuple[Tensor, Tensor, Any]:
        logits, state = decoder.step(tokens, state)
        if k == 1:
            log_p, ids = top1_token(logits, forbidden=forbidden)
            return log_p[:, None], ids[:, None], state
        return *topk_tokens(logits, k, forbidden=forbidden), state

    return step_topk


def top1_token(
    logits: Tensor, *, forbidden: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Return ln p and id [R] of the best token: ``topk_tokens`` with k = 1, faster."""
    logits = logits.float()
    if has_native_topk(logits, 1):
        log_p, ids = native_topk(logits, 1, forbidden)
        return log_p[:, 0], ids[:, 0]
    best, tokens = _argmax(logits)
    may_be_forbidden = bool(forbidden) and int(tokens.min()) <= max(forbidden)
    if may_be_forbidden:
        log_p, ids = topk_tokens(logits, 1, forbidden=forbidden)
        return log_p[:, 0], ids[:, 0]
    return best - _logsumexp(logits, best), tokens


def _argmax(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maximum of each row and its index, the first of equals.

    It is in the first group with the largest maximum. An index over all of V takes
    twice as long as maxima alone.
    """
    rows, size = scores.shape
    groups = size // GROUP
    if size != groups * GROUP or not scores.is_contiguous():
        return scores.max(-1)
    grouped = scores.view(rows, groups, GROUP)
    first = grouped.amax(2).max(-1).indices
    members = grouped[torch.arange(rows, device=scores.device), first]
    best, index = members.max(-1)
    return best, first * GROUP + index


def _logsumexp(logits: Tensor, best: Tensor) -> Tensor:
    """Return the logsumexp of each row, given its largest logit ``best``."""
    log_sum = logits.exp().sum(-1).log_()
    if not best.abs().amax().item() < EXP_SAFE:
        unsafe = ~(best.abs() < EXP_SAFE)  # these rows alone: a batch changes no row
        log_sum[unsafe] = logits[unsafe].logsumexp(-1)
    _require_finite(log_sum)
    return log_sum


def topk_tokens(
    logits: Tensor, k: int, *, forbidden: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Return ln p and ids [R, K] of the ``k`` best tokens of each row, best first.

    Ties go to the lower id, so that nothing depends on the batch. A forbidden token
    comes last, with a ln p of -inf; the others keep the model's probability. K is less
    than ``k`` if V is. Raises ``NumericsError`` if logits are NaN or infinite.
    """
    logits = logits.float()
    if has_native_topk(logits, k):
        return native_topk(logits, k, forbidden)
    largest = _topk(logits, _num_fetched(logits, k, forbidden))
    log_sum = _logsumexp(logits, largest[0][:, 0])  # cheaper than a log_softmax
    values, tokens = _sorted_allowed(logits, largest, k, forbidden)
    return values - log_sum[:, None], tokens


def topk_tokens_with_rules(
    logits: Tensor,
    k: int,
    *,
    rules: Sequence[Rule],
    generated: Tensor,
    sentences: Tensor,
    forbidden: tuple[int, ...] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, ids and ln p [R, K] of the tokens that score best after rules.

    ``generated`` [R L] are the tokens so far, ``sentences`` [R] their sentences.
    """
    log_p = log_probabilities(logits)
    scores = apply_rules(log_p, rules, RuleContext(generated, sentences, log_p))
    largest = _topk(scores, _num_fetched(scores, k, forbidden))
    values, tokens = _sorted_allowed(scores, largest, k, forbidden)
    return values, tokens, log_p.gather(1, tokens)


def log_probabilities(logits: Tensor) -> Tensor:
    """Return ln p [R, V] of every token; ``NumericsError`` if it is not finite."""
    log_p = logits.float().log_softmax(-1)
    _require_finite(log_p.amax(-1))
    return log_p


def _num_fetched(scores: Tensor, k: int, forbidden: tuple[int, ...]) -> int:
    # One more than needed, to see whether the last one needed has equals outside.
    return min(k + len(forbidden) + 1, scores.shape[1])


def _sorted_allowed(
    scores: Tensor,
    largest: tuple[Tensor, Tensor],
    k: int,
    forbidden: tuple[int, ...],
) -> tuple[Tensor, Tensor]:
    """Return the ``k`` best of the ``largest``, ties by id, forbidden tokens last."""
    values, tokens = largest
    if tokens.shape[1] < scores.shape[1]:
        tokens = _ties_to_lower_ids(scores, values, tokens)

    tokens, by_id = tokens.sort()
    values = values.gather(1, by_id)
    for token in forbidden:
        values = values.masked_fill(tokens == token, -math.inf)
    values, by_value = values.sort(descending=True, stable=True)
    tokens = tokens.gather(1, by_value)
    return values[:, :k], tokens[:, :k]


def _topk(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return what ``scores.topk(k)`` returns, faster.

    The ``k`` largest are in the ``k`` groups with the largest maxima.
    """
    rows, size = scores.shape
    groups = size // GROUP
    if groups < 4 * k or not scores.is_contiguous():
        return scores.topk(k)
    grouped = scores[:, : groups * GROUP].view(rows, GROUP, groups)
    best_groups = grouped.amax(1).topk(k, sorted=False).indices
    members = torch.arange(0, groups * GROUP, groups, device=scores.device)
    tokens = (best_groups[:, :, None] + members).flatten(1)
    if size > groups * GROUP:  # the tokens of no group
        rest = torch.arange(groups * GROUP, size, device=scores.device)
        tokens = torch.cat([tokens, rest.expand(rows, -1)], dim=1)
    values, indices = scores.gather(1, tokens).topk(k)
    return values, tokens.gather(1, indices)


def _ties_to_lower_ids(scores: Tensor, values: Tensor, tokens: Tensor) -> Tensor:
    """Where the last value ties with tokens outside, take the lowest ids of all."""
    last = values[:, -1]
    rows = ((last == values[:, -2]) & last.isfinite()).nonzero()[:, 0]
    if not len(rows):
        return tokens
    values, last = values[rows], last[rows, None]
    ids = torch.arange(scores.shape[1], device=scores.device)
    beyond = scores.shape[1]
    equal = torch.where(scores[rows] == last, ids, beyond)
    lowest = equal.topk(values.shape[1], largest=False).values  # in order of ids
    rank = (values == last).cumsum(1).sub_(1).clamp_(min=0)
    resolved = torch.where(values == last, lowest.gather(1, rank), tokens[rows])
    return tokens.index_copy(0, rows, resolved)


def _require_finite(log_sum: Tensor) -> None:
    if math.isfinite(log_sum.sum().item()):
        return
    if not torch.isfinite(log_sum).all():
        raise NumericsError.of_scores()
