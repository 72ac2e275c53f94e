"""The tokens worth looking at after one step of the model.

Letters used for sizes in this file:

    R  rows of the batch      V  vocabulary      K  tokens kept for each row
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.decoding.rules import ruled
from headwise.decoding.written import Rule, Written
from headwise.errors import NumericsError


def best_tokens(
    logits: Tensor, count: int, *, forbidden: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Return ln p and ids [R, K] of the ``count`` best tokens of each row, best first.

    Among equals the lower id comes first, so that nothing depends on the batch. A
    forbidden token is never taken (its ln p is -inf, behind all others), but the others
    keep the probability that the model gives them. K is less where V is.
    """
    logits = logits.float()
    normalizer = logits.logsumexp(-1, keepdim=True)  # less work than a log_softmax
    _require_finite(normalizer)
    values, tokens = _best(logits, count, forbidden)
    return values - normalizer, tokens


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
    values, tokens = _best(scores, count, forbidden)
    return values, tokens, log_p.gather(1, tokens)


def log_probabilities(logits: Tensor) -> Tensor:
    """Return ln p [R, V] of every token."""
    log_p = logits.float().log_softmax(-1)
    _require_finite(log_p.amax(-1))
    return log_p


def _best(
    scores: Tensor, count: int, forbidden: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    # One more than needed, to see whether the last one needed has equals outside.
    looked_at = min(count + len(forbidden) + 1, scores.shape[1])
    values, tokens = scores.topk(looked_at)
    if looked_at < scores.shape[1] and _tie_at_the_edge(values):
        values, tokens = (
            each[:, :looked_at] for each in scores.sort(descending=True, stable=True)
        )

    tokens, by_id = tokens.sort()
    values = values.gather(1, by_id)
    for token in forbidden:
        values = values.masked_fill(tokens == token, -math.inf)
    values, by_value = values.sort(descending=True, stable=True)
    tokens = tokens.gather(1, by_value)
    return values[:, :count], tokens[:, :count]


def _tie_at_the_edge(values: Tensor) -> bool:
    last, before = values[:, -1], values[:, -2]
    return bool(((last == before) & last.isfinite()).any())


def _require_finite(normalizer: Tensor) -> None:
    if not torch.isfinite(normalizer).all():
        raise NumericsError(
            "the model gave scores for the next token that are not numbers (NaN, "
            "infinite, or -inf for every token); weights in float32 and a checkpoint "
            "from before training diverged may help"
        )
