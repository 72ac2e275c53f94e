"""Word dropout (Iyyer et al. 2015): source tokens that training hides at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from headwise.data.batches import uniform
from headwise.data.ragged_batch import Batch
from headwise.text.vocabulary import SPECIALS, UNKNOWN


def drop_words(batch: Batch, rate: float, random: np.random.PCG64) -> Batch:
    """Replace each source token by UNKNOWN with probability ``rate``; END stays."""
    tokens = batch.source.tokens
    dropped = torch.from_numpy(uniform(random, len(tokens)) < rate)
    dropped &= tokens >= len(SPECIALS)
    source = replace(batch.source, tokens=tokens.masked_fill(dropped, UNKNOWN))
    return replace(batch, source=source)
