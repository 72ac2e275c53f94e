"""Perplexity per token."""

from __future__ import annotations

import math

from headwise.errors import UsageError


def perplexity(sum_loss_nats: float, num_tokens: int) -> float:
    """Return exp of the mean cross-entropy; infinity on overflow.

    ``sum_loss_nats`` is the sum of -ln p over all tokens, END included, without label
    smoothing.
    """
    if num_tokens < 1:
        raise UsageError(f"num_tokens must be 1 or more, not {num_tokens}")
    try:
        return math.exp(sum_loss_nats / num_tokens)
    except OverflowError:
        return math.inf
