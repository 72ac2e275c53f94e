"""The median rule, by answers worked out by hand."""

import pytest

from headwise.sweep.pruning import MIN_OTHERS, Curve, falls_behind, is_warm


def curve(name, *values):
    """Return a curve that was validated every 10 updates."""
    return Curve(name, [(10 * n, float(x)) for n, x in enumerate(values, start=1)])


OTHERS = [curve("b", 1, 2), curve("c", 2, 4), curve("d", 3, 9)]


@pytest.mark.parametrize(
    ("values", "stops"),
    [
        ((2, 3), True),  # the best of 20 updates is 3, below the median of 2, 4, 9
        ((4, 1), False),  # 4 is not below 4
        ((1,), True),  # after 10 updates the median is 2
        ((2,), False),
        ((), False),
    ],
)
def test_a_trial_stops_below_the_median_of_the_others(values, stops):
    own = curve("a", *values)
    found = falls_behind(own, [own, *OTHERS], lower_is_better=False)
    assert found is stops


def test_where_lower_is_better_it_stops_above_the_median():
    own = curve("a", 9, 5)
    better = curve("a", 9, 2)

    # The lowest values of the others after 20 updates are 1, 2 and 3.
    assert falls_behind(own, [own, *OTHERS], lower_is_better=True)
    assert not falls_behind(better, [better, *OTHERS], lower_is_better=True)


def test_one_bad_seed_of_a_good_combination_goes_on():
    """The mean over seeds of a is (1 + 9) / 2 = 5, above the median of 2, 4 and 9."""
    own, sibling = curve("a", 0, 1), curve("a", 4, 9)

    assert falls_behind(own, [own, *OTHERS], lower_is_better=False)
    assert not falls_behind(own, [own, sibling, *OTHERS], lower_is_better=False)


def test_seeds_of_another_combination_count_as_one():
    """The medians are of b 2, c 4 and d (9 + 1) / 2 = 5; and of 2, 4 and 9: 4 each."""
    own = curve("a", 3, 3)
    few = [own, *OTHERS[:2], curve("c", 4, 4)]

    assert not falls_behind(own, few, lower_is_better=False)  # b and c are too few
    assert falls_behind(own, [*few, OTHERS[2]], lower_is_better=False)


def test_trials_that_have_not_come_as_far_do_not_count():
    own = curve("a", 0, 0)
    others = [curve(name, 5) for name in "bcdef"]

    assert not falls_behind(own, [own, *others], lower_is_better=False)


def test_fewer_others_stop_nothing():
    own = curve("a", 0)
    others = [curve(str(n), 5) for n in range(MIN_OTHERS)]

    assert falls_behind(own, [own, *others], lower_is_better=False)
    assert not falls_behind(own, [own, *others[1:]], lower_is_better=False)


def test_a_validation_that_is_repeated_replaces_what_was_after_it():
    found = curve("a", 1, 2, 3)
    found.add(20, 5.0)

    assert found.points == [(10, 1.0), (20, 5.0)]


def test_values_between_two_validations_are_those_before():
    found = curve("a", 1, 7, 3)

    assert found.best_until(29, lower_is_better=False) == 7
    assert found.best_until(9, lower_is_better=False) is None
    assert found.best_until(31, lower_is_better=False) is None


@pytest.mark.parametrize(
    ("facts", "warm"),
    [
        ({}, True),
        ({"step": 24}, False),  # a quarter of 100
        ({"warmup_steps": 26}, False),
        ({"step": 10, "minutes": 1.0, "max_minutes": 4.0}, True),
        ({"step": 10, "minutes": 0.9, "max_minutes": 4.0}, False),
        ({"step": 10, "minutes": 1.0, "max_minutes": 4.0, "warmup_steps": 11}, False),
    ],
)
def test_nothing_stops_before_its_warm_up(facts, warm):
    usual = {
        "step": 25,
        "last_step": 100,
        "warmup_steps": 10,
        "minutes": 1.0,
        "max_minutes": None,
    }
    assert is_warm(**{**usual, **facts}) is warm
