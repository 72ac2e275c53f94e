"""Batches: within the budget, every pair in its turn, the same whenever asked again."""

from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.data import batches as module
from headwise.data.batches import (
    TrainingOrder,
    dev_batches,
    largest_batch,
    make_batch,
    worst_case_batches,
)
from headwise.data.example_stores import PairStore, WeightedRange
from headwise.data.prepare import prepare
from headwise.data.prepared import SplitFacts
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.data.token_budget import split_by_tokens
from headwise.errors import SettingsError
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import END, PAD, START

LENGTHS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1)


@pytest.fixture
def with_lengths(store):
    """Return a function that makes a store of pairs with these lengths."""

    def make(lengths, ranges=None) -> PairStore:
        return store([([5] * s, [6] * t) for s, t in lengths], ranges)

    return make


@pytest.fixture
def some(with_lengths) -> PairStore:
    chance = np.random.default_rng(1)
    return with_lengths(chance.integers(1, 20, size=(500, 2)).tolist())


def plan(order: TrainingOrder, epoch: int, start: int = 0) -> list[list[int]]:
    return [batch.tolist() for batch in order.epoch(epoch, start=start)]


def test_a_batch_has_end_after_each_side_and_start_before_decoder_inputs(store):
    """Pair 0 says 5 6 -> 7; pair 1 says 8 -> 9 10."""
    pairs = store([([5, 6], [7]), ([8], [9, 10])])

    batch = make_batch(pairs, np.array([1, 0]))

    assert batch.source.tokens.tolist() == [8, END, 5, 6, END]
    assert batch.source.padded().tolist() == [[8, END, PAD], [5, 6, END]]
    assert batch.decoder_input.padded().tolist() == [[START, 9, 10], [START, 7, PAD]]
    assert batch.target.padded().tolist() == [[9, 10, END], [7, END, PAD]]
    assert (batch.num_source_tokens, batch.num_target_tokens) == (5, 5)
    assert batch.indices.tolist() == [1, 0]
    assert {batch.source.tokens.dtype, batch.target.tokens.dtype} == {torch.int64}


def test_a_store_may_hold_sides_without_tokens(store):
    batch = make_batch(store([([], [])]), np.array([0]))

    assert batch.source.padded().tolist() == [[END]]
    assert batch.decoder_input.padded().tolist() == [[START]]


def test_batches_are_cut_where_padding_would_pass_the_budget():
    """Budget 6: 3 rows of 2, then 2 x 3, then 5 alone, then 9 alone though over it."""
    assert split_by_tokens(np.array([2, 2, 2, 3, 3, 5, 9]), 6) == [0, 3, 5, 6]


@given(st.lists(st.integers(1, 30), max_size=60).map(sorted), st.integers(1, 50))
@settings(deadline=None)
def test_cuts_equal_those_of_a_plain_loop(longest, budget):
    expected = []
    for index, length in enumerate(longest):
        start = expected[-1] if expected else 0
        if not expected or (index - start + 1) * length > budget:
            expected.append(index)

    assert split_by_tokens(np.array(longest, dtype=np.int64), budget) == expected


@given(LENGTHS, st.integers(1, 60), st.integers(0, 3), st.sampled_from([5, 10**6]))
@settings(deadline=None, max_examples=50)
def test_every_pair_comes_once_an_epoch_and_within_the_budget(
    with_lengths_for_given, lengths, budget, epoch, shard_pairs
):
    pairs = with_lengths_for_given(lengths)
    order = TrainingOrder(pairs, seed=7, batch_tokens=budget, shard_pairs=shard_pairs)

    batches = list(order.batches(epoch))

    assert sorted(i for b in batches for i in b.indices.tolist()) == list(
        range(len(lengths))
    )
    for batch in batches:
        assert batch.padded_tokens <= budget or len(batch.indices) == 1


@pytest.fixture(scope="module")
def with_lengths_for_given(store):
    """Do what ``with_lengths`` does; hypothesis wants fixtures that live longer."""

    def make(lengths) -> PairStore:
        return store([([5] * s, [6] * t) for s, t in lengths])

    return make


@given(
    LENGTHS,
    st.integers(0, 2**40),
    st.integers(0, 5),
    st.integers(0, 30),
    st.booleans(),
)
@settings(deadline=None, max_examples=50)
def test_resuming_at_any_step_gives_the_rest_of_the_epoch(
    with_lengths_for_given, lengths, seed, epoch, start, counted
):
    pairs = with_lengths_for_given(lengths)
    facts = {"seed": seed, "batch_tokens": 20, "shard_pairs": 8}
    whole = plan(TrainingOrder(pairs, **facts), epoch)
    resumed = TrainingOrder(pairs, **facts)
    if counted:
        assert resumed.num_batches(epoch) == len(whole)

    assert plan(resumed, epoch, start) == whole[start:]


@pytest.fixture
def several_shards(some, monkeypatch) -> TrainingOrder:
    """Let 500 pairs lie in blocks of 16, and about five shards of 100."""
    monkeypatch.setattr(module, "BLOCK_PAIRS", 16)
    return TrainingOrder(some, seed=3, batch_tokens=200, shard_pairs=100)


def test_an_epoch_in_several_shards_holds_every_pair_once(several_shards):
    for epoch in range(3):
        batches = plan(several_shards, epoch)

        assert sorted(index for batch in batches for index in batch) == list(range(500))
        assert several_shards.num_batches(epoch) == len(batches)


@pytest.mark.parametrize("counted", [False, True])
def test_resuming_across_shards_gives_the_rest_of_the_epoch(
    several_shards, some, counted
):
    whole = plan(several_shards, 2)

    for start in range(0, len(whole) + 2, 5):
        resumed = TrainingOrder(some, seed=3, batch_tokens=200, shard_pairs=100)
        if counted:
            resumed.num_batches(2)
        assert plan(resumed, 2, start) == whole[start:]


def test_shards_mix_blocks_from_the_whole_corpus(several_shards):
    first_quarter = plan(several_shards, 0)[: several_shards.num_batches(0) // 4]

    indices = [index for batch in first_quarter for index in batch]

    assert min(indices) < 150
    assert max(indices) > 350


def test_each_shard_is_shuffled_in_its_own_way(with_lengths, monkeypatch):
    """Of pairs that are all alike only chance says which come first."""
    monkeypatch.setattr(module, "BLOCK_PAIRS", 16)
    pairs = with_lengths([(5, 5)] * 192)
    order = TrainingOrder(pairs, seed=3, batch_tokens=60, shard_pairs=96)
    batches = plan(order, 0)
    half = len(batches) // 2
    assert order.num_batches(0) == len(batches) == 2 * half

    first, second = (
        [sorted(shard).index(pair) for pair in shard]
        for shard in ([*chain(*batches[:half])], [*chain(*batches[half:])])
    )

    assert sorted(first) == sorted(second) == list(range(96))
    assert first != second


def test_another_epoch_or_seed_has_other_batches(some):
    def order(seed: int) -> TrainingOrder:
        return TrainingOrder(some, seed=seed, batch_tokens=200)

    first, second = (as_sets(plan(order(1), epoch)) for epoch in (0, 1))
    other_seed = as_sets(plan(order(2), 0))

    assert first == as_sets(plan(order(1), 0))
    assert len(first & second) < len(first) / 4
    assert len(first & other_seed) < len(first) / 4


def as_sets(batches: list[list[int]]) -> set[frozenset[int]]:
    return {frozenset(batch) for batch in batches}


def test_the_training_order_is_fixed_for_a_seed(with_lengths):
    """Recorded: it must be the same with every numpy, or a resumed run is another."""
    pairs = with_lengths([(n % 3 + 1, n % 2 + 1) for n in range(8)])

    batches = plan(TrainingOrder(pairs, seed=5, batch_tokens=8), 3)

    assert batches == [[7, 4], [5, 2], [0, 6], [3, 1]]


def test_batches_hold_similar_lengths(some):
    """No pair would fit better elsewhere: the ranges of lengths do not overlap."""
    longest = np.maximum(*some.lengths())
    order = TrainingOrder(some, seed=1, batch_tokens=100)

    ranges = sorted((min(longest[b]), max(longest[b])) for b in order.epoch(0))

    for shorter, longer in pairwise(ranges):
        assert shorter[1] <= longer[0]


def test_batches_are_shuffled(some):
    order = TrainingOrder(some, seed=1, batch_tokens=200)

    widths = [batch.target.max_length for batch in order.batches(0)]

    assert widths != sorted(widths)


def test_a_batch_may_be_one_sentence(some):
    order = TrainingOrder(some, seed=1, batch_tokens=1, batch_pairs=1)

    batches = plan(order, 0)

    assert [len(batch) for batch in batches] == [1] * 500
    assert sorted(batches) == [[index] for index in range(500)]
    assert batches != sorted(batches)


def test_a_batch_may_count_pairs_instead_of_tokens(some):
    order = TrainingOrder(some, seed=1, batch_tokens=1, batch_pairs=64)

    assert sorted(map(len, plan(order, 0))) == [500 % 64] + [64] * (500 // 64)


def test_a_weight_says_how_often_a_pair_comes(with_lengths):
    """Of 400 pairs each: weight 1 once, 2.5 two or three times, 0.25 one in four."""
    ranges = [
        WeightedRange(0, 400, 1.0),
        WeightedRange(400, 800, 2.5),
        WeightedRange(800, 1200, 0.25),
    ]
    order = TrainingOrder(
        with_lengths([(3, 3)] * 1200, ranges), seed=1, batch_tokens=40
    )

    first, second = (
        np.bincount([i for batch in plan(order, epoch) for i in batch], minlength=1200)
        for epoch in (0, 1)
    )

    assert set(first[:400]) == {1}
    assert set(first[400:800]) == {2, 3}
    assert set(first[800:]) == {0, 1}
    assert abs(first[400:800].mean() - 2.5) < 0.1
    assert abs(first[800:].mean() - 0.25) < 0.1
    assert (first[800:] != second[800:]).any()  # chance takes others the next time


def test_validation_sees_every_pair_once_short_ones_first(some):
    batches = list(dev_batches(some, 100))

    widths = [batch.max_length for batch in batches]
    assert sorted(i for b in batches for i in b.indices.tolist()) == list(range(500))
    assert widths == sorted(widths)
    assert all(batch.padded_tokens <= 100 for batch in batches)


def test_no_batch_is_larger_than_the_largest(some):
    sources, targets = some.lengths()
    largest = largest_batch(int(sources.max()), int(targets.max()), 400)

    assert largest.source.padded_shape == largest.target.padded_shape == (20, 20)
    for batch in TrainingOrder(some, seed=1, batch_tokens=400).batches(0):
        assert batch.padded_tokens <= largest.padded_tokens
        assert batch.num_source_tokens <= largest.num_source_tokens
        assert batch.num_target_tokens <= largest.num_target_tokens


def test_demanding_batches_are_of_the_longest_of_usual_and_of_pairs_between():
    """Means of 5 and 8, longest of 40 and 20: so 40 and 20, 8 and 8, 24 and 24."""
    facts = SplitFacts(
        pairs=10,
        source_tokens=50,
        target_tokens=80,
        longest_source=40,
        longest_target=20,
    )

    found = worst_case_batches(facts, batch_tokens=450)

    assert [each.source.padded_shape for each in found] == [(10, 41), (50, 9), (18, 25)]
    assert [each.target.padded_shape for each in found] == [(10, 21), (50, 9), (18, 25)]


def test_demanding_batches_of_labels_have_one_for_each_source():
    facts = SplitFacts(
        pairs=10,
        source_tokens=50,
        target_tokens=10,
        longest_source=40,
        longest_target=1,
    )
    for ends, patch_values in (((True, False), None), ((False, False), 3)):
        found = worst_case_batches(
            facts, batch_tokens=450, ends=ends, patch_values=patch_values
        )

        assert all(len(each.target.tokens) == len(each) for each in found)


def test_the_largest_batch_holds_a_pair_that_is_over_the_budget():
    assert largest_batch(30, 10, 20).source.padded_shape == (1, 31)


def test_budgets_that_hold_nothing_are_refused(some):
    with pytest.raises(SettingsError) as raised:
        TrainingOrder(some, seed=-1, batch_tokens=0, batch_pairs=0, shard_pairs=0)

    assert len(raised.value.problems) == 4


def test_real_captions_are_padded_little(corpora, tmp_path):
    folder = corpora / "multi30k"
    data = DataSettings(
        corpora=(
            CorpusSettings(
                source=str(folder / "val.en.gz"), target=str(folder / "val.de.gz")
            ),
        )
    )
    corpus = prepare(data, TextSettings(vocab_size=1000), tmp_path / "p", seed=1)
    order = TrainingOrder(corpus.train, seed=1, batch_tokens=2048)

    batches = list(order.batches(0))

    true = sum(batch.num_source_tokens + batch.num_target_tokens for batch in batches)
    padded = sum(
        batch.source.padded().numel() + batch.target.padded().numel()
        for batch in batches
    )
    assert true / padded > 0.8
