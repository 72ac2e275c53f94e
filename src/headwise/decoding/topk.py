"""The tokens worth looking at after one step of the model.

Letters used for sizes in this file:

    R  rows of the batch      V  vocabulary      K  tokens kept for each row
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from headwise.decoding.next_token import (
    Choosing,
    Likely,
    NextToken,
    S,
    WritingAhead,
)
from headwise.decoding.rule import Rule, Written
from headwise.decoding.rules import ruled
from headwise.decoding.topk_native import can_choose, chosen
from headwise.errors import NumericsError

GROUP = 32
"""Tokens whose largest score is looked at first."""

SAFE = 80.0
"""Scores up to this much above or below 0 can go through exp as they are."""


def likely_next(
    model: NextToken[S],
    tokens: Tensor,
    state: S,
    count: int,
    *,
    forbidden: tuple[int, ...] = (),
) -> tuple[Likely, S]:
    """Write one token in every row; return the ``count`` best to follow in each."""
    if hasattr(model, "step_to_likely"):  # isinstance takes as long as a small product
        choosing = cast(Choosing, model)
        log_p, ids, state = choosing.step_to_likely(tokens, state, count, forbidden)
        return Likely(log_p, ids), state
    logits, state = model.step(tokens, state)
    if count == 1:
        best, ids = best_token(logits, forbidden=forbidden)
        return Likely(best[:, None], ids[:, None]), state
    return Likely(*best_tokens(logits, count, forbidden=forbidden)), state


def most_likely_next(
    model: NextToken[S],
    tokens: Tensor,
    state: S,
    *,
    most: int,
    end: int,
    enough: int,
    forbidden: tuple[int, ...] = (),
) -> tuple[Likely, S]:
    """Write the most probable token in every row, and again, up to ``most`` times.

    Returns ln p and the tokens, one behind the other, [steps, rows]: one step, but for
    a model that can write ahead, until ``enough`` rows have come to their ``end``.
    """
    if hasattr(model, "write_ahead"):
        ahead = cast(WritingAhead[S], model)
        log_p, ids, state = ahead.write_ahead(
            tokens, state, most=most, end=end, enough=enough, forbidden=forbidden
        )
        if log_p.isnan().any():
            raise NumericsError.of_scores()
        return Likely(log_p, ids), state
    likely, state = likely_next(model, tokens, state, 1, forbidden=forbidden)
    return Likely(likely.log_p.T, likely.tokens.T), state


def best_token(
    logits: Tensor, *, forbidden: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Return what ``best_tokens`` does for one token [R], in less time."""
    logits = logits.float()
    if can_choose(logits, 1):
        found, several = chosen(logits, 1, forbidden)
        return found[:, 0], several[:, 0]
    best, tokens = _largest_one(logits)
    refused = bool(forbidden) and int(tokens.min()) <= max(forbidden)
    if refused:
        values, several = best_tokens(logits, 1, forbidden=forbidden)
        return values[:, 0], several[:, 0]
    return best - _normalizer(logits, best), tokens


def _largest_one(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest of each row and its place, the first of equals.

    The first group with the largest maximum holds it; to look for a place among all
    takes twice as long as to look for maxima alone.
    """
    rows, size = scores.shape
    groups = size // GROUP
    if size != groups * GROUP or not scores.is_contiguous():
        return scores.max(-1)
    grouped = scores.view(rows, groups, GROUP)
    first = grouped.amax(2).max(-1).indices
    members = grouped[torch.arange(rows, device=scores.device), first]
    best, place = members.max(-1)
    return best, first * GROUP + place


def _normalizer(logits: Tensor, best: Tensor) -> Tensor:
    """Return the logsumexp of each row, where ``best`` is its largest score."""
    normalizer = logits.exp().sum(-1).log_()
    if not float(best.abs().amax()) < SAFE:
        unsafe = ~(best.abs() < SAFE)  # these rows alone: a batch changes no row
        normalizer[unsafe] = logits[unsafe].logsumexp(-1)
    _require_finite(normalizer)
    return normalizer


def best_tokens(
    logits: Tensor, count: int, *, forbidden: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Return ln p and ids [R, K] of the ``count`` best tokens of each row, best first.

    Among equals the lower id comes first, so that nothing depends on the batch. A
    forbidden token is never taken (its ln p is -inf, behind all others), but the others
    keep the probability that the model gives them. K is less where V is.
    """
    logits = logits.float()
    if can_choose(logits, count):
        return chosen(logits, count, forbidden)
    largest = _largest(logits, _looked_at(logits, count, forbidden))
    normalizer = _normalizer(logits, largest[0][:, 0])  # less than a log_softmax
    values, tokens = _best_of(logits, largest, count, forbidden)
    return values - normalizer[:, None], tokens


def best_tokens_by_rules(
    logits: Tensor,
    count: int,
    *,
    rules: Sequence[Rule],
    written: Tensor,
    sentences: Tensor,
    forbidden: tuple[int, ...] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, ids and ln p [R, K] of the tokens that are best by the rules."""
    log_p = log_probabilities(logits)
    scores = ruled(log_p, rules, Written(written, sentences, log_p))
    largest = _largest(scores, _looked_at(scores, count, forbidden))
    values, tokens = _best_of(scores, largest, count, forbidden)
    return values, tokens, log_p.gather(1, tokens)


def log_probabilities(logits: Tensor) -> Tensor:
    """Return ln p [R, V] of every token."""
    log_p = logits.float().log_softmax(-1)
    _require_finite(log_p.amax(-1))
    return log_p


def _looked_at(scores: Tensor, count: int, forbidden: tuple[int, ...]) -> int:
    # One more than needed, to see whether the last one needed has equals outside.
    return min(count + len(forbidden) + 1, scores.shape[1])


def _best_of(
    scores: Tensor,
    largest: tuple[Tensor, Tensor],
    count: int,
    forbidden: tuple[int, ...],
) -> tuple[Tensor, Tensor]:
    values, tokens = largest
    if tokens.shape[1] < scores.shape[1]:
        tokens = _lowest_of_equals(scores, values, tokens)

    tokens, by_id = tokens.sort()
    values = values.gather(1, by_id)
    for token in forbidden:
        values = values.masked_fill(tokens == token, -math.inf)
    values, by_value = values.sort(descending=True, stable=True)
    tokens = tokens.gather(1, by_value)
    return values[:, :count], tokens[:, :count]


def _largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest of each row, as ``topk`` does, in less time.

    They stand in the ``count`` groups with the largest maxima, and few others do.
    """
    rows, size = scores.shape
    groups = size // GROUP
    if groups < 4 * count or not scores.is_contiguous():
        return scores.topk(count)
    grouped = scores[:, : groups * GROUP].view(rows, GROUP, groups)
    chosen = grouped.amax(1).topk(count, sorted=False).indices
    members = torch.arange(0, groups * GROUP, groups, device=scores.device)
    tokens = (chosen[:, :, None] + members).flatten(1)
    if size > groups * GROUP:  # what is in no group
        rest = torch.arange(groups * GROUP, size, device=scores.device)
        tokens = torch.cat([tokens, rest.expand(rows, -1)], dim=1)
    values, places = scores.gather(1, tokens).topk(count)
    return values, tokens.gather(1, places)


def _lowest_of_equals(scores: Tensor, values: Tensor, tokens: Tensor) -> Tensor:
    """Where the last value has equals outside, take the lowest ids of them all."""
    last = values[:, -1]
    rows = ((last == values[:, -2]) & last.isfinite()).nonzero()[:, 0]
    if not len(rows):
        return tokens
    values, last = values[rows], last[rows, None]
    ids = torch.arange(scores.shape[1], device=scores.device)
    beyond = scores.shape[1]
    equal = torch.where(scores[rows] == last, ids, beyond)
    lowest = equal.topk(values.shape[1], largest=False).values  # in order of ids
    place = (values == last).cumsum(1).sub_(1).clamp_(min=0)
    chosen = torch.where(values == last, lowest.gather(1, place), tokens[rows])
    return tokens.index_copy(0, rows, chosen)


def _require_finite(normalizer: Tensor) -> None:
    if math.isfinite(float(normalizer.sum())):
        return
    if not torch.isfinite(normalizer).all():
        raise NumericsError.of_scores()
