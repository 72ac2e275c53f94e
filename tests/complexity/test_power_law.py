"""Exponents and their intervals."""

import math
import random

import pytest

from headwise.complexity.power_law import fit_power_law


def test_an_exact_law_is_found_exactly():
    law = fit_power_law([2, 4, 8, 16], [3 * n**1.5 for n in (2, 4, 8, 16)])

    assert law.exponent == pytest.approx(1.5)
    assert law.factor == pytest.approx(3)
    assert law.high - law.low < 1e-6
    assert law.r_squared == pytest.approx(1)
    assert law(32) == pytest.approx(3 * 32**1.5)


def test_three_points_by_hand():
    """ln x = 0, 1, 2 and ln y = 0, 2, 1: slope 1/2, offset 1/2, errors 1/4, 1, 1/4.

    So the standard error is √(1.5 / 1 / 2), and t of one degree is 12.706.
    """
    law = fit_power_law([1, math.e, math.e**2], [1, math.e**2, math.e])

    assert law.exponent == pytest.approx(0.5)
    assert law.factor == pytest.approx(math.exp(0.5))
    assert law.r_squared == pytest.approx(0.25)
    assert law.high - law.exponent == pytest.approx(12.706 * math.sqrt(0.75), rel=1e-4)
    assert law.exponent - law.low == pytest.approx(law.high - law.exponent)


def test_the_interval_holds_the_truth_about_95_times_in_a_hundred():
    draw = random.Random(1)
    xs = [128, 256, 512, 1024, 2048]
    inside = 0
    for _ in range(1000):
        law = fit_power_law(xs, [x**2 * math.exp(draw.gauss(0, 0.1)) for x in xs])
        inside += law.low <= 2 <= law.high
    assert 925 <= inside <= 975


def test_what_does_not_grow_has_exponent_0():
    law = fit_power_law([1, 2, 4], [7, 7, 7])

    assert (law.exponent, law.r_squared) == (pytest.approx(0), 1)


@pytest.mark.parametrize(
    ("xs", "ys"), [([1, 2], [1, 2]), ([1, 2, 3], [1, 0, 2]), ([2, 2, 2], [1, 2, 3])]
)
def test_what_no_law_can_be_fitted_to_is_refused(xs, ys):
    with pytest.raises(ValueError, match="three points"):
        fit_power_law(xs, ys)
