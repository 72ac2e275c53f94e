"""Pairs are put into rows of one length, and batches always have as many rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.packed_shapes import (
    MIN_WIDTH,
    ROW_MULTIPLE,
    PackedShape,
    pack_batches,
    row_width,
)

lengths = st.lists(
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


@given(lengths, st.sampled_from([1, 128, 500, 2048]))
def test_each_pair_is_in_one_batch_whose_rows_hold_it(pairs, tokens):
    source, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T

    batches = pack_batches(source, target, tokens)

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

    first, second = pack_batches(source, np.ones_like(source), 2 * MIN_WIDTH)

    assert first.tolist() == [0, 3, 1, 2]
    assert second.tolist() == [4]


def test_both_sides_must_fit():
    source, target = np.array([100, 20]), np.array([20, 120])

    assert len(pack_batches(source, target, MIN_WIDTH)) == 2
    assert len(pack_batches(source, target, 2 * MIN_WIDTH)) == 1


@pytest.mark.parametrize(
    ("longest", "width"), [(1, 128), (128, 128), (129, 256), (256, 256), (1000, 1024)]
)
def test_a_row_is_as_wide_as_the_longest_pair_needs(longest, width):
    assert PackedShape.of(longest, 1).width == width
    assert PackedShape.of(longest, 1).rows == 1


def test_many_rows_can_be_cut_into_equal_pieces():
    assert PackedShape.of(50, 25_000) == PackedShape(rows=192, width=128)
    assert 192 % ROW_MULTIPLE == 0
