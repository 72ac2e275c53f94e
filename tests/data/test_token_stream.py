from itertools import islice

import numpy as np
import pytest
import torch

from headwise.data.batches import dev_batches, make_batch
from headwise.data.npy_files import NpyWriter
from headwise.data.token_stream import TokenStream
from headwise.data.window_order import WindowOrder
from headwise.errors import DataError


def stream(folder, bounds=(0, 40, 57), window=8, weights=None):
    with NpyWriter(folder / "tokens.npy", np.uint16) as tokens:
        tokens.append(np.arange(bounds[-1]) + 4)
    with NpyWriter(folder / "offsets.npy", np.int64) as offsets:
        offsets.append(bounds)
    return TokenStream(folder / "tokens.npy", folder / "offsets.npy", window, weights)


def test_windows_cover_the_text_in_order_and_cross_no_corpus(tmp_path):
    text = stream(tmp_path)
    batch = make_batch(text, text.indices(np.arange(len(text))))

    assert len(text) == 5 + 3
    assert batch.target.tokens.tolist() == list(range(4, 61))
    assert batch.target.lengths.tolist() == [8] * 5 + [8, 8, 1]
    assert text.lengths()[1].tolist() == batch.target.lengths.tolist()


def test_the_source_is_empty_and_no_end_is_added(tmp_path):
    batch = make_batch(stream(tmp_path), np.array([0, 8]))

    assert batch.num_source_tokens == 0
    assert batch.num_target_tokens == 16
    assert batch.decoder_input.padded()[:, 0].tolist() == [1, 1]  # START


def test_tokens_are_counted_as_they_are_in_batches(tmp_path):
    text = stream(tmp_path)
    order = WindowOrder(text, seed=1, batch_tokens=24)
    for indices in order.epoch(0):
        batch = make_batch(text, indices)
        assert text.count_tokens(indices) == (0, batch.num_target_tokens)
        assert batch.num_target_tokens <= 24


def test_each_epoch_cuts_at_another_place_and_reads_every_token(tmp_path):
    text = stream(tmp_path)
    order = WindowOrder(text, seed=1, batch_tokens=16)
    starts = []
    for epoch in range(6):
        indices = np.concatenate(list(order.epoch(epoch)))
        starts.append(frozenset(indices.tolist()))
        seen = make_batch(text, indices).target.tokens.unique()
        assert seen.tolist() == list(range(4, 61))
    assert len(set(starts)) > 1


def test_the_order_is_a_function_of_seed_and_epoch(tmp_path):
    text = stream(tmp_path)
    one, other = (WindowOrder(text, seed=3, batch_tokens=16) for _ in range(2))
    again = [each.tolist() for each in one.epoch(2)]

    assert [each.tolist() for each in other.epoch(2)] == again
    assert [each.tolist() for each in one.epoch(2, start=2)] == again[2:]
    assert one.num_batches(2) == len(again)
    different = WindowOrder(text, seed=4, batch_tokens=16)
    assert [each.tolist() for each in different.epoch(2)] != again


def test_a_weight_says_how_often_a_corpus_is_read(tmp_path):
    text = stream(tmp_path, bounds=(0, 800, 1600), weights=[2.0, 0.5])
    order = WindowOrder(text, seed=1, batch_tokens=80)
    firsts = np.concatenate(list(order.epoch(0)))

    assert (firsts < 800).sum() == pytest.approx(200, abs=3)
    assert (firsts >= 800).sum() == pytest.approx(50, abs=20)


def test_validation_goes_through_each_window_once(tmp_path):
    text = stream(tmp_path)
    tokens = torch.cat([each.target.tokens for each in dev_batches(text, 20)])

    assert sorted(tokens.tolist()) == list(range(4, 61))


def test_a_fixed_number_of_windows_can_be_asked_for(tmp_path):
    order = WindowOrder(stream(tmp_path), seed=1, batch_tokens=800, batch_pairs=3)

    assert [len(each) for each in islice(order.epoch(0), 2)] == [3, 3]


def test_files_that_do_not_fit_together_are_named(tmp_path):
    with pytest.raises(DataError, match=r"offsets\.npy does not fit"):
        stream(tmp_path, bounds=(0, 40), weights=[1.0, 1.0])
