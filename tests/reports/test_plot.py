"""Figures: every point where it belongs, and everything in words and numbers too."""

import pytest
from tests.reports.conftest import NASTY, Opened

from headwise.reports.plot import MAX_ROWS, Plot, Series, figure, json_for_script


def a_plot(**changes):
    line = Series(name="training", points=[(0, 1.0), (50, 3.0), (100, 2.0)], colour=1)
    return Plot(**{"title": "Loss", "about": "In nats.", "series": [line], **changes})


def test_points_stand_where_they_belong():
    """The axis goes from 0.92 to 3.08; 0, 50 and 100 are its left, middle and right."""
    (path,) = Opened(figure(a_plot())).all("path")

    places = [point.split() for point in path["d"].strip("M").split("L")]
    assert [float(x) for x, _ in places] == [0.0, 500.0, 1000.0]
    low, high = 1000 - 1000 * 0.08 / 2.16, 1000 * 0.08 / 2.16
    assert [float(y) for _, y in places] == pytest.approx([low, high, 500], abs=0.06)


def test_a_figure_is_said_in_words_and_in_numbers():
    opened = Opened(figure(a_plot()))

    (area,) = opened.all("svg", role="img")
    assert area["aria-label"] == "Loss. training: 1 at step 0, 2 at step 100."
    assert opened.said("td") == ["1", "3", "2"]
    assert opened.data == [
        {"x": [0, 100], "series": [{"x": [0, 50, 100], "y": [1, 3, 2]}]}
    ]
    assert "2" in opened.said("b")  # the latest value, without any script


def test_a_band_goes_up_on_one_side_and_back_on_the_other():
    series = Series(
        name="loss",
        points=[(0, 2.0), (10, 2.0)],
        spans=[(0, 1.0, 3.0), (10, 1.0, 3.0)],
        colour=2,
    )
    band, _ = Opened(figure(a_plot(series=[series], shade="all"))).all("path")

    assert band["class"] == "band c2"
    x = [float(point.split()[0]) for point in band["d"].strip("MZ").split("L")]
    assert x == [0, 1000, 1000, 0]


def test_what_is_measured_is_marked_with_how_sure_it_is():
    series = Series(
        name="BLEU",
        points=[(10, 20.0)],
        spans=[(10, 19.0, 21.0)],
        spans_are="bars",
        colour=2,
        marked=True,
    )
    opened = Opened(figure(a_plot(series=[series])))

    assert len(opened.all("circle")) == 1
    (bar,) = opened.all("line", **{"class": "bar c2"})
    assert float(bar["y1"][:-1]) > float(bar["y2"][:-1])
    assert opened.all("path") == []  # of a single point there is no line


def test_resumes_are_marked_where_the_axis_reaches():
    opened = Opened(figure(a_plot(resumes=[25, 400])))

    (mark,) = opened.all("line", **{"class": "resume"})
    assert mark["x1"] == "25.00%"
    assert "resumed from step 25" in opened.said("title")


def test_a_logarithmic_scale_is_said():
    assert "Logarithmic scale." in figure(a_plot(log=True))
    assert "Logarithmic" not in figure(a_plot())


def test_no_points_no_figure():
    assert figure(a_plot(series=[Series(name="none", points=[], colour=1)])) == ""


def test_a_table_stays_short_and_holds_the_latest():
    points = [(float(step), float(step)) for step in range(1, 1001)]
    opened = Opened(figure(a_plot(series=[Series(name="a", points=points, colour=1)])))

    rows = opened.said("td")
    assert len(rows) <= MAX_ROWS
    assert rows[-1] == "1,000"


def test_no_text_can_become_markup():
    series = Series(name=NASTY, points=[(0, 1.0)], colour=1)
    opened = Opened(figure(a_plot(title=NASTY, about=NASTY, series=[series])))

    assert opened.all("img") == []
    assert opened.said("h3") == [NASTY]


def test_data_for_the_script_cannot_end_its_element():
    text = json_for_script({"a": f"{NASTY}&<!--"})

    assert not set("<>&") & set(text)
    assert Opened(f"<script>{text}</script>").data == [{"a": f"{NASTY}&<!--"}]
