"""A batch in rows is the same batch, laid out in another way."""

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwise.data.batches import TrainingOrder, make_batch
from headwise.data.packed_shapes import PackedShape
from headwise.data.sequence_packing import pack_batch
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
    assert rows.target_in.tolist() == [[START, 7, START, 9, 10, PAD]]
    assert rows.target_out.tolist() == [[7, END, 9, 10, END, PAD]]
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
            ("target_in", "target"),
            ("target_out", "target"),
        ):
            mine = getattr(part, f"{side}_pair")[row] == pair + 1
            padded = getattr(batch, name)[pair]
            assert (
                getattr(part, name)[row, mine].tolist()
                == padded[padded != PAD].tolist()
            )
            position = getattr(part, f"{side}_position")[row, mine]
            assert position.tolist() == list(range(int(mine.sum())))
    for name in ("source", "target_out"):
        tokens = sum(int((getattr(part, name) != PAD).sum()) for part in parts)
        assert tokens == getattr(batch, f"num_{name[:6]}_tokens")


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
