"""Masks: how many, which tokens, and that nothing else decides about them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.tasks.masked_language_model.masking import (
    EVERY,
    mask_batch,
    mask_every,
)
from headwise.text.vocabulary import END, PAD, SPECIALS, UNKNOWN

VOCAB = 1000


def batch_of(rows):
    tokens = torch.tensor([token for row in rows for token in row])
    target = RaggedTokens.from_lengths(tokens, torch.tensor([len(row) for row in rows]))
    empty = RaggedTokens.from_lengths(tokens[:0], torch.zeros(len(rows), dtype=int))
    return Batch(empty, target, torch.arange(len(rows)))


def masked(rows, seed=1, rate=0.15):
    random = np.random.PCG64(seed)
    return mask_batch(batch_of(rows), random, rate=rate, vocab_size=VOCAB)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.integers(0, 1000),
    st.floats(0.01, 0.9),
)
def test_each_window_has_its_share_of_labels(lengths, seed, rate):
    rows = [[len(SPECIALS) + place for place in range(length)] for length in lengths]
    result = masked(rows, seed, rate)

    labels = result.target.tokens
    for row, length in enumerate(lengths):
        count = (labels[result.target.row_index == row] != PAD).sum()
        assert count == np.ceil(rate * length)


def test_labels_are_what_was_there_and_other_tokens_stay():
    rows = [list(range(10, 210)), list(range(300, 340))]
    before = torch.tensor(rows[0] + rows[1])
    result = masked(rows)

    labels, source = result.target.tokens, result.source.tokens
    chosen = labels != PAD
    assert torch.equal(labels[chosen], before[chosen])
    assert torch.equal(source[~chosen], before[~chosen])


def test_of_the_chosen_80_percent_are_masked_10_random_10_left():
    rows = [[500] * 200 for _ in range(100)]
    result = masked(rows)

    hidden = result.source.tokens[result.target.tokens != PAD]
    assert len(hidden) == 100 * 30
    assert (hidden == UNKNOWN).float().mean() == pytest.approx(0.8, abs=0.03)
    assert (hidden == 500).float().mean() == pytest.approx(0.1, abs=0.03)
    assert len(hidden.unique()) > 200
    assert (hidden >= UNKNOWN).all()
    assert (hidden < VOCAB).all()


def test_special_symbols_are_never_hidden():
    rows = [[END] * 5, [UNKNOWN, 10, END]]
    for seed in range(20):
        result = masked(rows, seed, rate=0.9)
        assert (result.target.tokens[[0, 1, 2, 3, 4, 5, 7]] == PAD).all()
        assert result.target.tokens[6] == 10


def test_the_same_seed_masks_the_same_and_another_seed_others():
    rows = [list(range(10, 110))]

    def places(seed):
        return (masked(rows, seed).target.tokens != PAD).nonzero().tolist()

    assert places(1) == places(1)
    assert places(1) != places(2)


def test_to_measure_a_model_each_token_is_masked_in_one_of_the_passes():
    windows = batch_of([list(range(10, 40)), [50, END, 51]]).target
    count = torch.zeros(33, dtype=int)
    for first in range(EVERY):
        hidden, chosen = mask_every(windows, first)
        assert (hidden.tokens[chosen] == UNKNOWN).all()
        assert torch.equal(hidden.tokens[~chosen], windows.tokens[~chosen])
        count += chosen
    assert count.tolist() == [1] * 31 + [0] + [1]


def test_what_is_masked_to_measure_depends_on_nothing_but_the_window():
    short, long = [10, 11, 12], list(range(20, 60))
    alone, _ = mask_every(batch_of([short]).target, 0)
    together, _ = mask_every(batch_of([long, short]).target, 0)

    assert together.tokens[-3:].tolist() == alone.tokens.tolist()
