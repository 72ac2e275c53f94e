"""The tokens worth looking at after one step of the model.

Letters used for sizes in this file:

    R  rows of the batch      V  vocabulary      K  tokens kept for each row
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

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

    # One more than needed, to see whether the last one needed has equals outside.
    looked_at = min(count + len(forbidden) + 1, logits.shape[1])
    values, tokens = logits.topk(looked_at)
    if looked_at < logits.shape[1] and _tie_at_the_edge(values):
        values, tokens = (
            each[:, :looked_at] for each in logits.sort(descending=True, stable=True)
        )

    tokens, by_id = tokens.sort()
    values = values.gather(1, by_id)
    for token in forbidden:
        values = values.masked_fill(tokens == token, -math.inf)
    values, by_value = values.sort(descending=True, stable=True)
    tokens = tokens.gather(1, by_value)
    return values[:, :count] - normalizer, tokens[:, :count]


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
