"""Masking (Devlin et al. 2019, Section 3.1): which tokens of a window are hidden.

The symbol of a mask is UNKNOWN, which says the same of a token: it is not known. So a
vocabulary needs no further entry, and a text with unknown words reads like one with
masks.

Letters used for sizes: B windows, N tokens of all windows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.data.batches import uniform
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.text.vocabulary import PAD, SPECIALS, UNKNOWN

MASKED, RANDOM = 0.8, 0.1
"""Shares of the chosen tokens that are masked, and that are replaced at random."""

EVERY = 7
"""To measure a model, one in so many tokens is masked: about BERT's 15%."""


def mask_batch(
    batch: Batch, random: np.random.PCG64, *, rate: float, vocab_size: int
) -> Batch:
    """Return windows as training needs them: hidden tokens as labels.

    The target of ``batch`` has the windows. In the result the source has them with
    masks, and the target the labels: the tokens chosen, and PAD in place of others.
    """
    windows = batch.target
    tokens = windows.tokens.numpy()
    chosen = _choose(windows, random, rate)
    source = tokens.copy()
    fate = uniform(random, len(tokens))
    source[chosen & (fate < MASKED)] = UNKNOWN
    at_random = chosen & (fate >= MASKED) & (fate < MASKED + RANDOM)
    drawn = uniform(random, int(at_random.sum())) * (vocab_size - len(SPECIALS))
    source[at_random] = len(SPECIALS) + drawn.astype(np.int64)
    labels = np.where(chosen, tokens, PAD)
    return replace(
        batch,
        source=replace(windows, tokens=torch.from_numpy(source)),
        target=replace(windows, tokens=torch.from_numpy(labels)),
    )


def _choose(
    windows: RaggedTokens, random: np.random.PCG64, rate: float
) -> NDArray[np.bool_]:
    """Choose the same share of the tokens of each window, at least one [N].

    Special symbols, such as END between documents, are never chosen.
    """
    tokens, rows = windows.tokens.numpy(), windows.row_index.numpy()
    may_be_chosen = tokens >= len(SPECIALS)
    keys = np.where(may_be_chosen, uniform(random, len(tokens)), 1.0)
    order = np.lexsort((keys, rows))
    rank = np.empty(len(tokens), np.int64)
    rank[order] = np.arange(len(tokens)) - windows.offsets.numpy()[rows[order]]
    available = np.bincount(rows, weights=may_be_chosen, minlength=len(windows))
    wanted = np.ceil(rate * available)
    chosen: NDArray[np.bool_] = may_be_chosen & (rank < wanted[rows])
    return chosen


def mask_every(windows: RaggedTokens, first: int) -> tuple[RaggedTokens, Tensor]:
    """Mask each ``EVERY``-th token from number ``first``; return it, and where [N].

    What is masked depends on nothing but the place in the window. Special symbols are
    left as they are.
    """
    tokens = windows.tokens
    chosen = (windows.positions % EVERY == first) & (tokens >= len(SPECIALS))
    return replace(windows, tokens=tokens.masked_fill(chosen, UNKNOWN)), chosen
