"""The validation set is a function of seed and text; memory is bounded."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.data.pair_formats import LABELLED_TEXT, TRANSLATION
from headwise.data.validation_split import (
    HeldOutSources,
    SmallestKeys,
    choose_held_out,
    key,
    keys_needed,
)
from headwise.errors import DataError


def test_a_key_depends_on_seed_and_text_and_not_on_white_space():
    assert key(1, "a b") == key(1, " a\u00a0 b ")
    assert len({key(1, "a b"), key(2, "a b"), key(1, "ab"), key(1, "A b")}) == 4


def test_a_key_is_the_start_of_a_hash_that_any_tool_can_compute():
    """printf '7 Hello world' | sha256sum | cut -c1-16."""
    assert key(7, "Hello world") == 0x00FA9BFAD2A80B55


@given(st.lists(st.integers(0, 50)), st.integers(1, 10))
@settings(deadline=None)
def test_the_smallest_keys_are_those_of_a_sorted_list_without_repeats(keys, most):
    smallest = SmallestKeys(most)
    for each in keys:
        smallest.add(each)

    assert list(smallest) == sorted(set(keys))[:most]
    assert len(smallest) == len(list(smallest))


def held(
    num_sources: int, num_pairs: int, wanted: int | None = None, share: int = 50
) -> int:
    """Return how many of so many sources are held out."""
    keys = range(num_sources)
    held_out = choose_held_out(
        keys, seed=1, num_pairs=num_pairs, share=share, wanted=wanted
    )
    return sum(each <= held_out.highest_key for each in keys)


@pytest.mark.parametrize(
    ("num_sources", "num_pairs", "number"),
    [
        (2, 2, 1),
        (100, 100, 10),  # a tenth of the sources
        (500, 500, 50),
        (2_400, 2_400, 50),
        (29_000, 29_000, 580),  # 2% of the pairs
        (20_000, 10**6, 2_000),
        (300, 10**6, 30),  # few sources, each many times
    ],
)
def test_the_size_of_the_validation_set_depends_on_the_corpus(
    num_sources, num_pairs, number
):
    assert held(num_sources, num_pairs) == number


def test_single_labels_are_held_out_in_larger_numbers():
    assert held(1800, 1800, share=LABELLED_TEXT.dev_share) == 180
    assert held(50_000, 50_000, share=LABELLED_TEXT.dev_share) == 2000
    assert held(1800, 1800, share=TRANSLATION.dev_share) == 50


def test_the_size_of_the_validation_set_can_be_set():
    assert held(100, 100, wanted=99) == 99


@pytest.mark.parametrize(("num_sources", "wanted"), [(2, 2), (100, 100), (5, 200)])
def test_some_pairs_must_be_left_for_training(num_sources, wanted):
    with pytest.raises(DataError, match=f"of {num_sources} different source"):
        held(num_sources, num_sources, wanted=wanted)


@pytest.mark.parametrize("wanted", [None, 1, 50])
def test_a_single_source_text_is_not_told_to_hold_out_fewer(wanted):
    """Fewer than one is none."""
    with pytest.raises(
        DataError, match=r"the same one.* validation set \(--dev"
    ) as raised:
        held(1, 5000, wanted=wanted)
    assert "fewer" not in str(raised.value)


@pytest.mark.parametrize("wanted", [None, 30])
def test_the_keys_kept_tell_all_that_is_needed(wanted):
    chance = random.Random(1)
    keys = [chance.randrange(2**64) for _ in range(25_000)]
    smallest = SmallestKeys(keys_needed(wanted))
    for each in keys:
        smallest.add(each)

    facts = {"seed": 1, "num_pairs": len(keys), "share": 10, "wanted": wanted}

    assert choose_held_out(smallest, **facts) == choose_held_out(keys, **facts)


def test_only_chosen_pairs_are_held_out():
    assert "a" not in HeldOutSources(seed=1)
    assert "a" in HeldOutSources(seed=1, highest_key=key(1, "a"))
