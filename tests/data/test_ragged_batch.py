"""Ragged batches: to pad them loses nothing, and rows are taken without padding."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.text.vocabulary import END, PAD, START

SEQUENCES = st.lists(st.lists(st.integers(4, 99), max_size=7), min_size=1, max_size=8)
"""Sequences of any lengths, some of them empty."""


def ragged(sequences) -> RaggedTokens:
    tokens = torch.tensor([token for each in sequences for token in each])
    lengths = torch.tensor([len(each) for each in sequences])
    return RaggedTokens.from_lengths(tokens.long(), lengths.long())


def batch_of(*pairs) -> Batch:
    sources = [[*source, END] for source, _ in pairs]
    targets = [[*target, END] for _, target in pairs]
    return Batch(ragged(sources), ragged(targets), torch.arange(len(pairs)))


def sequences_of(side) -> list[list[int]]:
    return [part.tolist() for part in side.tokens.split(side.lengths.tolist())]


@given(SEQUENCES, st.integers(-5, 3))
def test_a_padded_matrix_without_its_padding_is_what_was_padded(sequences, value):
    side = ragged(sequences)

    matrix = side.padded(value)

    longest = max(map(len, sequences))
    assert matrix.shape == side.padded_shape == (len(sequences), longest)
    assert matrix.tolist() == [
        each + [value] * (longest - len(each)) for each in sequences
    ]
    assert torch.equal(matrix[side.is_real], side.tokens)
    assert torch.equal(matrix.flatten()[side.padded_index], side.tokens)
    again = RaggedTokens.from_lengths(matrix[side.is_real], side.is_real.sum(1))
    assert torch.equal(again.offsets, side.offsets)
    assert again.max_length == side.max_length


@given(SEQUENCES, st.data())
def test_rows_are_those_of_the_padded_matrix(sequences, data):
    side = ragged(sequences)
    numbers = st.integers(0, len(sequences) - 1)
    index = torch.tensor(data.draw(st.lists(numbers, max_size=12)), dtype=torch.int64)

    rows = side.rows(index)

    assert sequences_of(rows) == [sequences[number] for number in index]
    assert len(rows) == len(index)
    assert torch.equal(rows.padded(), side.padded()[index])
    assert torch.equal(rows.is_real, side.is_real[index])


@given(SEQUENCES)
def test_each_token_knows_its_sequence_and_its_position(sequences):
    side = ragged(sequences)

    places = zip(side.row_index.tolist(), side.positions.tolist(), strict=True)

    assert side.tokens.tolist() == [sequences[row][place] for row, place in places]
    assert len(side) == len(sequences)
    assert side.lengths.tolist() == [len(each) for each in sequences]


@given(SEQUENCES.map(lambda rows: [[*row, 2] for row in rows]))
def test_shifted_sequences_begin_with_the_given_token(sequences):
    side = ragged(sequences)

    assert sequences_of(side.shifted(1)) == [[1, *each[:-1]] for each in sequences]
    assert sequences_of(side) == sequences  # itself unchanged


def test_a_side_without_sequences_is_empty():
    side = ragged([])

    assert (len(side), side.padded_shape) == (0, (0, 0))
    assert side.padded().shape == (0, 0)


def test_parts_are_padded_as_the_whole_batch_is():
    batch = batch_of(([5, 6, 7], [8]), ([5], [9, 10]), ([6], [7]))

    first, second = batch.parts(2)

    assert first.source.padded().tolist() == [[5, 6, 7, END], [5, END, PAD, PAD]]
    assert second.source.padded().tolist() == [[6, END, PAD, PAD]]
    assert second.decoder_input.padded().tolist() == [[START, 7, PAD]]
    assert second.padded_tokens == batch.padded_tokens // 3 == 4
    assert second.indices.tolist() == [2]
    assert (first.num_source_tokens, first.num_target_tokens) == (6, 5)


def test_pairs_are_dealt_round_robin():
    batch = batch_of(*([[number], [number]] for number in range(4, 9)))

    dealt = [each.indices.tolist() for each in batch.deal(2)]

    assert dealt == [[0, 2, 4], [1, 3]]
    assert len(batch.deal(9)) == 5
    assert batch.deal(1) == [batch]


def test_a_batch_on_its_device_is_not_copied():
    batch = batch_of(([5, 6], [7]))

    assert batch.to("cpu").source.tokens is batch.source.tokens


def test_a_batch_moves_to_a_device_as_it_is():
    batch = batch_of(([5, 6], [7]), ([8], [9, 10])).to("meta")

    for side in (batch.source, batch.target, batch.decoder_input):
        assert {side.tokens.device.type, side.offsets.device.type} == {"meta"}
        assert side.padded_shape == (2, 3)
    assert batch.indices.device.type == "cpu"  # messages name them


def test_pictures_stay_bytes_on_a_device():
    """Joined with offsets, they became numbers of eight bytes each."""
    values = torch.zeros(3, 4, dtype=torch.uint8)
    pictures = RaggedTokens.from_lengths(values, torch.tensor([1, 2]))
    batch = replace(batch_of(([5], [7]), ([8], [9, 10])), source=pictures)

    moved = batch.to("meta")

    assert moved.source.tokens.shape == (3, 4)
    assert moved.source.tokens.dtype == torch.uint8
    assert moved.source.offsets.dtype == torch.int64


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_batch_on_a_gpu_is_padded_there():
    batch = batch_of(([5, 6], [7]), ([8], [9, 10]))
    moved = batch.to("cuda")

    for name in ("source", "target", "decoder_input"):
        here, there = getattr(batch, name), getattr(moved, name)
        assert there.padded().is_cuda
        assert torch.equal(there.padded().cpu(), here.padded())
        assert torch.equal(there.is_real.cpu(), here.is_real)
