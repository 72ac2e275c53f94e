"""Doubled batches: each example twice, side by side, and what SimCut cuts of it."""

from dataclasses import replace

import pytest
import torch

from headwise.data.doubled_batch import double_batch, is_second_pass
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.text.vocabulary import END, START, UNKNOWN


def side(*rows):
    tokens = torch.tensor([token for row in rows for token in row])
    return RaggedTokens.from_lengths(tokens, torch.tensor([len(row) for row in rows]))


def two_pairs():
    source = side([10, 11, END], [20, END])
    target = side([30, END], [40, 41, 42, END])
    return Batch(source, target, torch.tensor([5, 9]))


def test_both_passes_of_an_example_stand_side_by_side():
    doubled = double_batch(two_pairs())

    assert doubled.indices.tolist() == [5, 5, 9, 9]
    assert doubled.source.tokens.tolist() == [10, 11, END] * 2 + [20, END] * 2
    assert doubled.target.tokens.tolist() == [30, END] * 2 + [40, 41, 42, END] * 2
    assert is_second_pass(doubled.target).tolist() == [
        *(False, False, True, True),
        *(False, False, False, False, True, True, True, True),
    ]


def test_what_the_loss_counts_is_doubled_too():
    batch = replace(two_pairs(), counted=torch.tensor([0, 1, 0, 0, 1, 1]).bool())

    counted = double_batch(batch).counted

    assert counted.int().tolist() == [0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1]


@pytest.fixture
def cut():
    torch.manual_seed(0)
    row = list(range(10, 2010))
    pair = Batch(side([*row, END]), side([*row, END]), torch.tensor([0]))
    return double_batch(pair, 0.3)


def test_tokens_of_the_second_pass_become_unknown_and_no_others(cut):
    row = torch.tensor(list(range(10, 2010)))
    for found, plain in (
        (cut.source.tokens, torch.cat([row, torch.tensor([END])])),
        (cut.decoder_input.tokens, torch.cat([torch.tensor([START]), row])),
    ):
        first, second = found.chunk(2)
        assert torch.equal(first, plain)
        changed = second != plain
        assert (second[changed] == UNKNOWN).all()
        assert 500 < changed.sum() < 700  # 0.3 of 2,000; START and END stay
        assert not changed[plain < 4].any()


def test_labels_are_never_cut_and_both_sides_are_cut_apart(cut):
    assert torch.equal(*cut.target.tokens.chunk(2))
    source, target = cut.source.tokens.chunk(2)[1], cut.decoder_input.tokens.chunk(2)[1]
    assert not torch.equal(source[:-1] == UNKNOWN, target[1:] == UNKNOWN)


def test_what_the_decoder_reads_moves_with_its_rows(cut):
    swapped = cut.rows(torch.tensor([1, 0]))

    assert torch.equal(
        swapped.decoder_input.tokens, cut.decoder_input.tokens.roll(2001)
    )
    moved = cut.to("cpu")
    assert torch.equal(moved.decoder_input.tokens, cut.decoder_input.tokens)


def test_the_rng_of_torch_alone_decides_what_is_cut():
    batch = two_pairs()
    torch.manual_seed(3)
    one = double_batch(batch, 0.5)
    torch.manual_seed(3)
    other = double_batch(batch, 0.5)

    assert torch.equal(one.source.tokens, other.source.tokens)
    assert torch.equal(one.decoder_input.tokens, other.decoder_input.tokens)
