"""Augmentation by lexical symmetries, on commands like those of SCAN."""

from benchmarks.lexical_symmetry import augmented, exchangeable, lexicon

PAIRS = [
    ("walk", "WALK"),
    ("jump", "JUMP"),
    ("walk twice", "WALK WALK"),
    ("walk left", "LEFT WALK"),
    ("walk right", "RIGHT WALK"),
    ("turn left", "LEFT"),
    ("walk right twice", "RIGHT WALK RIGHT WALK"),
]


def test_a_word_means_the_symbol_that_comes_and_goes_with_it():
    assert lexicon(PAIRS) == {
        "walk": "WALK",
        "jump": "JUMP",
        "left": "LEFT",
        "right": "RIGHT",
    }


def test_words_are_exchangeable_where_they_share_a_context():
    assert exchangeable(PAIRS, lexicon(PAIRS)) == [("jump", "walk"), ("left", "right")]


def test_exchanges_make_pairs_that_were_never_seen():
    found = augmented(PAIRS)

    assert found[: len(PAIRS)] == PAIRS
    assert set(found[len(PAIRS) :]) == {
        ("jump twice", "JUMP JUMP"),
        ("jump left", "LEFT JUMP"),
        ("jump right", "RIGHT JUMP"),
        ("jump right twice", "RIGHT JUMP RIGHT JUMP"),
        ("turn right", "RIGHT"),
        ("walk left twice", "LEFT WALK LEFT WALK"),
    }


def test_what_is_kept_for_validation_is_not_added():
    found = dict(augmented(PAIRS, without=["jump twice"]))

    assert "jump twice" not in found
    assert "jump left" in found


def test_repeated_pairs_stay_as_often_as_they_are():
    assert augmented([*PAIRS, PAIRS[1]]).count(PAIRS[1]) == 2
