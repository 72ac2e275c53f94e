"""Word dropout: which tokens it may hide."""

import numpy as np
import torch

from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.data.word_dropout import drop_words
from headwise.text.vocabulary import END, UNKNOWN


def test_source_words_become_unknown_and_nothing_else_changes():
    row = torch.tensor([*range(10, 1010), END])
    side = RaggedTokens.from_lengths(row, torch.tensor([1001]))
    batch = Batch(side, side, torch.arange(1))
    dropped = drop_words(batch, 0.3, np.random.PCG64(1))

    changed = dropped.source.tokens != row
    assert (dropped.source.tokens[changed] == UNKNOWN).all()
    assert 250 < changed.sum() < 350
    assert dropped.source.tokens[-1] == END
    assert torch.equal(dropped.target.tokens, row)
