"""Packed batches: every pair whole in one row, and always the same shapes."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwise.data.batches import TrainingOrder, make_batch
from headwise.data.sequence_packing import (
    MIN_WIDTH,
    ROW_MULTIPLE,
    PackedShape,
    pack_batch,
    row_width,
    split_into_packed_batches,
)
from headwise.text.vocabulary import END, PAD, START

LENGTHS = st.lists(
    st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=40
)


def batch_of(store, lengths):
    """Make a batch whose tokens all differ."""
    numbers = iter(range(4, 10_000))
    pairs = [[[next(numbers) for _ in range(n)] for n in both] for both in lengths]
    return make_batch(store(pairs), np.arange(len(pairs)))


def test_two_pairs_share_a_row(store):
    """5 6 -> 7 and 8 -> 9 10, in a row of six places on each side."""
    batch = make_batch(store([([5, 6], [7]), ([8], [9, 10])]), np.array([0, 1]))

    (rows,) = pack_batch(batch, PackedShape(1, 6))

    assert rows.source.tolist() == [[5, 6, END, 8, END, PAD]]
    assert rows.source_pair.tolist() == [[1, 1, 1, 2, 2, 0]]
    assert rows.source_position.tolist() == [[0, 1, 2, 0, 1, 0]]
    assert rows.decoder_input.tolist() == [[START, 7, START, 9, 10, PAD]]
    assert rows.target.tolist() == [[7, END, 9, 10, END, PAD]]
    assert rows.target_pair.tolist() == [[1, 1, 2, 2, 2, 0]]
    assert rows.target_position.tolist() == [[0, 1, 0, 1, 2, 0]]
    assert rows.longest == 3


@given(LENGTHS, st.integers(1, 5), st.integers(61, 130))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_token_is_in_one_row_with_its_whole_pair(store, lengths, count, width):
    batch = batch_of(store, lengths)

    parts = pack_batch(batch, PackedShape(count, width))

    assert {part.source.shape for part in parts} == {(count, width)}
    for pair in range(len(batch)):
        rows = [
            (part, row)
            for part in parts
            for row in range(count)
            if (part.source_pair[row] == pair + 1).any()
            or (part.target_pair[row] == pair + 1).any()
        ]
        ((part, row),) = rows
        for name, side in (
            ("source", "source"),
            ("decoder_input", "target"),
            ("target", "target"),
        ):
            mine = getattr(part, f"{side}_pair")[row] == pair + 1
            alone = getattr(batch, name).rows(torch.tensor([pair])).tokens
            assert torch.equal(getattr(part, name)[row, mine], alone)
            position = getattr(part, f"{side}_position")[row, mine]
            assert position.tolist() == list(range(int(mine.sum())))
    for name in ("source", "target"):
        tokens = sum(int((getattr(part, name) != PAD).sum()) for part in parts)
        assert tokens == getattr(batch, f"num_{name}_tokens")


def test_a_batch_of_the_order_fills_its_rows_once(store):
    chance = np.random.default_rng(1)
    lengths = chance.integers(1, 40, size=(700, 2)).tolist()
    pairs = store([([5] * s, [6] * t) for s, t in lengths])
    order = TrainingOrder(pairs, seed=1, batch_tokens=512, packed=True)

    batches = list(order.batches(0))

    assert order.num_batches(0) == len(batches)
    seen = torch.cat([batch.indices for batch in batches])
    assert sorted(seen.tolist()) == list(range(700))
    shape = PackedShape.of(max(map(max, lengths)) + 1, 512)
    places = [pack_batch(batch, shape) for batch in batches]
    assert {len(parts) for parts in places} == {1}
    full = [parts[0] for parts in places]
    filled = sum(int((part.source != PAD).sum()) for part in full)
    assert filled / sum(part.source.numel() for part in full) > 0.7


def test_an_epoch_of_packed_batches_is_resumed_at_its_step(store):
    chance = np.random.default_rng(2)
    pairs = store(
        [([5] * s, [6] * t) for s, t in chance.integers(1, 40, size=(300, 2)).tolist()]
    )
    facts = {"seed": 3, "batch_tokens": 256, "shard_pairs": 100, "packed": True}
    whole = [each.tolist() for each in TrainingOrder(pairs, **facts).epoch(1)]

    rest = [each.tolist() for each in TrainingOrder(pairs, **facts).epoch(1, start=5)]

    assert rest == whole[5:]
    assert [each.tolist() for each in TrainingOrder(pairs, **facts).epoch(2)] != whole


PAIR_LENGTHS = st.lists(
    st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=0, max_size=200
)


def rows_needed(source, target, width):
    """Fill rows with pairs in their order, one pair after the other."""
    rows, room = 0, (0, 0)
    for here in zip(source, target, strict=True):
        if any(length > left for length, left in zip(here, room, strict=True)):
            rows, room = rows + 1, (width, width)
        room = tuple(left - length for length, left in zip(here, room, strict=True))
    return rows


@given(PAIR_LENGTHS, st.sampled_from([1, 128, 500, 2048]))
def test_each_pair_is_in_one_batch_whose_rows_hold_it(pairs, tokens):
    source, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T

    batches = split_into_packed_batches(source, target, tokens)

    together = np.concatenate([np.empty(0, np.int64), *batches])
    assert sorted(together.tolist()) == list(range(len(pairs)))
    for batch in batches:
        longest = np.maximum(source, target)[batch]
        assert len(set(row_width(longest).tolist())) == 1  # one shape a batch
        shape = PackedShape.of(int(longest.max()), tokens)
        needed = rows_needed(source[batch], target[batch], shape.width)
        assert 1 <= needed <= shape.rows


def test_a_pair_that_does_not_fit_begins_another_batch():
    """Two rows of 128: 100 + 20, then 90 + 30, and 40 goes into neither."""
    source = np.array([100, 90, 30, 20, 40])

    targets = np.ones_like(source)
    first, second = split_into_packed_batches(source, targets, 2 * MIN_WIDTH)

    assert first.tolist() == [0, 3, 1, 2]
    assert second.tolist() == [4]


def test_both_sides_must_fit():
    source, target = np.array([100, 20]), np.array([20, 120])

    assert len(split_into_packed_batches(source, target, MIN_WIDTH)) == 2
    assert len(split_into_packed_batches(source, target, 2 * MIN_WIDTH)) == 1


@pytest.mark.parametrize(
    ("longest", "width"), [(1, 128), (128, 128), (129, 256), (256, 256), (1000, 1024)]
)
def test_a_row_is_as_wide_as_the_longest_pair_needs(longest, width):
    assert PackedShape.of(longest, 1).width == width
    assert PackedShape.of(longest, 1).rows == 1


def test_many_rows_can_be_cut_into_equal_pieces():
    assert PackedShape.of(50, 25_000) == PackedShape(rows=192, width=128)
    assert 192 % ROW_MULTIPLE == 0
