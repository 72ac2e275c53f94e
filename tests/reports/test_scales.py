"""Axes: values stand where they should, and round numbers are written there."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.reports.scales import Scale, format_value, scale_for


def test_places_by_hand():
    even, log = Scale(10.0, 20.0), Scale(1.0, 100.0, log=True)

    assert [even.position(each) for each in (10, 15, 20)] == [0, 0.5, 1]
    assert [log.position(each) for each in (1, 10, 100)] == [0, 0.5, 1]
    assert even.position(99) == 1  # beyond the end is drawn at the end


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(0.0, 1.0), [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (Scale(-0.04, 1.04), [0, 0.25, 0.5, 0.75, 1.0]),
        (Scale(1.0, 2800.0), [1000, 2000]),
        (Scale(11.0, 43.0), [20, 30, 40]),
        (Scale(1.0, 12.0, log=True), [1, 2, 5, 10]),
        (Scale(1.7, 9.9, log=True), [2, 3, 4, 5, 6, 8]),
        (Scale(0.01, 1e6, log=True), [0.01, 1, 100, 1e4, 1e6]),
    ],
)
def test_ticks_are_round(scale, ticks):
    assert scale.ticks() == pytest.approx(ticks)


FINITE = st.floats(-1e12, 1e12, allow_subnormal=False)


WITHIN = st.sampled_from([(-math.inf, math.inf), (0.0, math.inf), (0.0, 100.0)])


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=9), st.booleans(), st.booleans(), WITHIN)
def test_every_value_has_its_place_and_every_axis_its_ticks(
    values, log, from_zero, within
):
    scale = scale_for(values, log=log, from_zero=from_zero, within=within)
    ticks = scale.ticks()

    assert scale.low < scale.high
    assert 1 <= len(ticks) <= 12
    slack = 1e-9 * max(abs(scale.low), abs(scale.high))
    assert all(scale.low - slack <= each <= scale.high + slack for each in ticks)
    assert ticks == sorted(set(ticks))
    places = [scale.position(each) for each in sorted(values)]
    assert places == sorted(places)
    assert all(0 <= each <= 1 for each in places)


def test_an_axis_may_begin_at_zero():
    assert scale_for([5.0, 10.0], from_zero=True).low == 0.0
    assert scale_for([5.0, 10.0]).low > 4.0


def test_what_is_no_number_has_no_say():
    assert scale_for([math.nan, 1.0, 2.0]) == scale_for([1.0, 2.0])
    assert scale_for([]) == Scale(0.0, 1.0)
    assert not scale_for([-1.0, 0.0], log=True).log


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.8149, "1.815"),
        (28.0, "28"),
        (4011.4, "4,011"),
        (12_500, "12,500"),
        (250_000, "250 k"),
        (3_400_000, "3.4 M"),
        (0.003, "0.003"),
        (5.4e-6, "5.4e-6"),
        (-2.5, "-2.5"),
        (math.inf, "inf"),
    ],
)
def test_numbers_are_written_short(value, text):
    assert format_value(value) == text
