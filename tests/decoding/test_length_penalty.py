"""Length penalties by hand, and the bound that exact stopping relies on."""

import pytest

from headwise.decoding.length_penalty import (
    best_possible_score,
    gnmt_penalty,
    max_length,
    no_penalty,
    power_penalty,
)


def test_penalties_are_their_formulas():
    assert power_penalty(4, 0.5) == 2
    assert gnmt_penalty(7, 1.0) == 2
    assert no_penalty(7, 1.0) == 1


def test_the_best_possible_score_is_that_of_the_longest_output():
    """A total of -6 after 2 tokens: divided by at most 4, so -1.5 at best."""
    assert best_possible_score(-6.0, 2, 4, float) == -1.5


def test_a_positive_reward_counts_for_the_longest_a_negative_for_the_shortest():
    assert best_possible_score(-6.0, 2, 4, lambda n: 1.0, 0.5) == -4.0
    assert best_possible_score(-6.0, 2, 4, lambda n: 1.0, -0.5) == -7.5


@pytest.mark.parametrize(("tokens", "limit"), [(0, 10), (3, 14), (5, 17)])
def test_the_length_limit_is_rounded_down(tokens, limit):
    assert max_length(tokens, factor=1.5, offset=10) == limit
