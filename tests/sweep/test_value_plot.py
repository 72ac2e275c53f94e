"""Validation value by one setting, as HTML."""

import re

import pytest

from headwise.sweep.value_plot import value_plot


def across(html):
    """Return where each mark stands, in percent of the width."""
    return [float(x) for x in re.findall(r'class="mark c\d" cx="([\d.]+)%"', html)]


def test_values_stand_in_their_order_with_equal_distances():
    html = value_plot("n", "bleu", [(8, 1.0, 1), (2, 2.0, 1), (4, 3.0, 2)])

    assert across(html) == [92.0, 8.0, 50.0]
    assert [*re.findall(r'dy="18">([^<]+)<', html)] == ["2", "4", "8"]


def test_means_are_joined_by_a_line():
    """The mean of both values of a is 2, that of b 4: from the middle to the top."""
    html = value_plot("n", "bleu", [("a", 0.0, 1), ("a", 4.0, 2), ("b", 4.0, 1)])

    (path,) = re.findall(r'class="line c5" d="M([^"]+)"', html)
    first, second = (tuple(map(float, each.split())) for each in path.split("L"))
    assert first == (80.0, pytest.approx(500.0))
    assert second[1] < 50


def test_a_range_on_a_logarithmic_scale_has_its_decades_equally_far():
    html = value_plot(
        "n", "loss", [(x, 1.0, 1) for x in (0.001, 0.01, 0.1)], scale="log"
    )
    first, second, third = across(html)

    assert second - first == pytest.approx(third - second, abs=0.02)
    assert "Line: means" not in html


def test_a_range_of_few_values_has_their_distances():
    html = value_plot("n", "bleu", [(x, 1.0, 1) for x in (0, 1, 10)], scale="linear")
    first, second, third = across(html)

    assert third - first == pytest.approx(10 * (second - first), abs=0.1)


def test_without_a_finished_trial_there_is_no_plot():
    assert value_plot("n", "bleu", []) == ""


def test_texts_are_escaped():
    assert "<b>" not in value_plot("n", "bleu", [("<b>", 1.0, 1), ("x", 2.0, 1)])
