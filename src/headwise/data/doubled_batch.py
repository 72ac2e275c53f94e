"""Batches in which each example stands twice, for losses of two passes.

Sentences 2 i and 2 i + 1 are the two passes of example i: side by side, so that both
are in cache together, and in the same part wherever a batch is split.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.text.vocabulary import SPECIALS, UNKNOWN


def double_batch(batch: Batch, cut_rate: float = 0.0) -> Batch:
    """Return ``batch`` with each example twice.

    In the second pass each token of the source, and of what the decoder reads, is
    replaced by ``UNKNOWN`` with probability ``cut_rate``, drawn from torch's RNG; START
    and END stay, and so do the targets.
    """
    doubled = batch.rows(torch.arange(len(batch)).repeat_interleave(2))
    if not cut_rate:
        return doubled
    source = replace(doubled.source, tokens=_cut(doubled.source, cut_rate))
    input_tokens = _cut(doubled.decoder_input, cut_rate)
    return replace(doubled, source=source, input_tokens=input_tokens)


def _cut(sequences: RaggedTokens, rate: float) -> Tensor:
    tokens = sequences.tokens
    cut = (torch.rand(len(tokens)) < rate) & is_second_pass(sequences)
    return tokens.masked_fill(cut & (tokens >= len(SPECIALS)), UNKNOWN)


def is_second_pass(sequences: RaggedTokens) -> Tensor:
    """Return which tokens of a doubled batch belong to a second pass [N]."""
    return sequences.row_index % 2 == 1
