"""Batches of rows of similar lengths, within a budget of tokens. Needs no torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

BATCH_TOKENS = 4096
"""Source positions, with padding, of the texts whose outputs are predicted together;
for a search, times the hypotheses of each."""


def split_by_tokens(longest: Indices, budget: int) -> list[int]:
    """Return the first index of each batch, so that rows x longest <= ``budget``.

    ``longest`` is the length of each row, in rising order. A row longer than the
    budget is a batch of its own.
    """
    starts = []
    start = 0
    while start < len(longest):
        starts.append(start)
        most = max(1, budget // int(longest[start]))
        ahead = longest[start : start + most]
        padded = ahead * np.arange(1, len(ahead) + 1)
        start += max(1, int(np.searchsorted(padded, budget, side="right")))
    return starts
