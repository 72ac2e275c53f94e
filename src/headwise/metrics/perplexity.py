"""Perplexity: how many tokens the model wavers between."""

from __future__ import annotations

import math

from headwise.errors import UsageError


def perplexity(sum_loss_nats: float, num_tokens: int) -> float:
    """Return e to the mean cross-entropy; infinite where that is too large a number.

    The loss is the sum of -ln p over all tokens, END counted, without label smoothing.
    """
    if num_tokens < 1:
        raise UsageError(
            f"num_tokens must be 1 or more, not {num_tokens}: without tokens there is "
            f"no perplexity"
        )
    try:
        return math.exp(sum_loss_nats / num_tokens)
    except OverflowError:
        return math.inf
