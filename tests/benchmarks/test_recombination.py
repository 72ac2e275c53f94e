"""Augmentation by recombination, on commands like those of SCAN."""

from benchmarks.recombination import recombined, rules

PAIRS = [
    ("walk", "WALK"),
    ("jump", "JUMP"),
    ("walk left", "LEFT WALK"),
    ("jump left", "LEFT JUMP"),
    ("jump twice", "JUMP JUMP"),
    ("walk left twice", "LEFT WALK LEFT WALK"),
    ("jump and walk left", "JUMP LEFT WALK"),
    ("walk after jump", "JUMP WALK"),
]


def test_words_that_join_and_repeat_are_found_and_others_are_not():
    assert rules(PAIRS) == {"twice": (0, 0), "and": (0, 1), "after": (1, 0)}


def test_a_rule_holds_in_every_pair_that_can_tell():
    assert "and" not in rules([*PAIRS, ("walk and jump", "JUMP WALK")])


def test_rules_are_used_with_parts_that_end_as_known_ones():
    found = recombined(PAIRS)

    assert found[: len(PAIRS)] == PAIRS
    assert set(found[len(PAIRS) :]) == {
        ("jump left twice", "LEFT JUMP LEFT JUMP"),
        ("jump and jump left", "JUMP LEFT JUMP"),
    }


def test_what_a_repeating_word_makes_is_joined():
    pairs = [*PAIRS, ("walk after jump twice", "JUMP JUMP WALK")]

    found = dict(recombined(pairs, without=["jump left twice"]))

    assert found["walk after jump left twice"] == "LEFT JUMP LEFT JUMP WALK"
    assert "jump left twice" not in found


def test_what_is_kept_for_validation_is_not_added():
    found = dict(recombined(PAIRS, without=["jump left twice"]))

    assert "jump left twice" not in found
    assert "jump and jump left" in found


def test_repeated_pairs_stay_as_often_as_they_are():
    assert recombined([*PAIRS, PAIRS[1]]).count(PAIRS[1]) == 2
