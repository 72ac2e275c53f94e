"""Pairs of random tokens, all of a length: what speed is measured on."""

from __future__ import annotations

import torch

from headwise.data.ragged_batch import Batch, RaggedTokens

FIRST_WORD = 4
"""Tokens below are special ones."""


def random_batch(pairs: int, *, length: int, vocabulary: int) -> Batch:
    """Return a batch without padding, drawn by torch's own generator."""
    lengths = torch.full((pairs,), length)
    source, target = (
        RaggedTokens.from_lengths(tokens, lengths)
        for tokens in torch.randint(FIRST_WORD, vocabulary, (2, pairs * length))
    )
    return Batch(source, target, torch.arange(pairs))
