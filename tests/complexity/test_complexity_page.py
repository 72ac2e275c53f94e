"""The page: what it draws and what it says."""

import re
from html import unescape

from headwise.complexity.complexity_page import complexity_page
from headwise.complexity.log_plot import Curve, log_plot
from headwise.complexity.tables import POOR_FIT, as_table, notes

NASTY = "</title><script>alert(1)</script>"


def test_a_power_law_is_a_straight_line():
    """Three points of y = x²: equal steps across, equal steps up."""
    page = log_plot(
        "Squares",
        "",
        [Curve(name="x²", points=[(1, 1), (10, 100), (100, 10_000)], colour=1)],
        x_name="n",
    )

    marks = re.findall(r'cx="([\d.]+)%" cy="([\d.]+)%"', page)
    (x1, y1), (x2, y2), (x3, y3) = ((float(x), float(y)) for x, y in marks)
    assert abs((x2 - x1) - (x3 - x2)) < 0.05
    assert abs((y2 - y1) - (y3 - y2)) < 0.05
    assert y3 < y1  # up


def test_no_points_are_no_plot():
    assert (
        log_plot("Nothing", "", [Curve(name="x", points=[], colour=1)], x_name="n")
        == ""
    )


def test_names_are_escaped():
    curve = Curve(name=NASTY, points=[(1, 1), (2, 4)], colour=1)

    assert "<script>" not in log_plot(NASTY, NASTY, [curve], x_name=NASTY)


def test_every_exponent_and_crossover_is_in_a_table(result):
    page = complexity_page(result, written=0.0)
    cells = [unescape(each) for each in re.findall(r"<td>(.*?)</td>", page)]

    table = as_table(result)
    num_exponents = sum(len(each["exponents"]) for each in table["layers"])
    assert cells.count("1.0000") + sum(0.99 < _number(c) < 1 for c in cells) >= (
        num_exponents
    )
    for each in result.crossovers:
        assert f"{each.predicted:.0f}" in cells


def _number(cell):
    return float(cell) if re.fullmatch(r"0\.\d{4}", cell) else 0.0


def test_a_poor_fit_is_named_but_not_where_nothing_grows(result):
    """The made-up times follow the formulas, so that no fit is poor."""
    assert POOR_FIT == 0.99
    assert notes(result) == ["each time is the median of 7 samples or more"]
