"""Two runs side by side: what differs, and both curves."""

import pytest
from tests.reports.conftest import NASTY, Opened, a_run, start, validation, write_run

from headwise.errors import UsageError
from headwise.reports.comparison import (
    BARS,
    ComparedRun,
    as_lines,
    as_page,
    changed_settings,
    overlay,
    sparkline,
)

FIRST = """
seed = 1
[training]
steps = 40
clip_norm = 1.0
[[data.corpora]]
source = "a.en"
[model]
tie = true
"""
SECOND = """
seed = 1
[training]
steps = 80
[[data.corpora]]
source = "b.en"
[model]
tie = false
"""


@pytest.fixture
def two(tmp_path):
    write_run(tmp_path / "one" / "run", a_run(40), FIRST)
    write_run(tmp_path / "two" / "run", a_run(80, every=20), SECOND)
    return (
        ComparedRun.open(tmp_path / "one" / "run"),
        ComparedRun.open(tmp_path / "two" / "run"),
    )


def test_only_settings_that_differ_are_named(two):
    assert changed_settings(*two) == [
        ("training.steps", "40", "80"),
        ("training.clip_norm", "1.0", "not set"),
        ("data.corpora.0.source", "a.en", "b.en"),
        ("model.tie", "true", "false"),
    ]
    assert changed_settings(two[0], two[0]) == []


def test_a_terminal_shows_both_at_each_step(two):
    lines = as_lines(*two)
    table = [line.split() for line in lines if line[:1].isdigit()]

    assert lines[0].startswith(f"A  {two[0].folder}: step 40, 20 s, best: BLEU 40.0")
    assert table == [
        ["10", "0.400", "–", "10.0", "–"],
        ["20", "0.200", "0.200", "20.0", "20.0"],
        ["30", "0.133", "–", "30.0", "–"],
        ["40", "0.100", "0.100", "40.0", "40.0"],
        ["60", "–", "0.067", "–", "60.0"],
        ["80", "–", "0.050", "–", "80.0"],
    ]


def test_curves_in_a_terminal_share_their_axes(two):
    """The first run ends at half the steps of the second."""
    lines = as_lines(*two)
    bleu = lines.index("BLEU, 10 to 80, up to step 80")
    one, other = (line.split()[-1] for line in lines[bleu + 1 : bleu + 3])

    assert other[-1] == "█"
    assert one[0] == "▁"
    assert len(one) < len(other)
    assert lines[bleu + 1].split()[0] == "one/run"


def test_runs_that_are_the_same_are_called_so(two):
    lines = as_lines(two[0], two[0])

    assert "all settings are the same" in lines


def test_a_run_without_validation_has_no_curve(tmp_path):
    run = ComparedRun.open(write_run(tmp_path / "run", [start()]))

    assert "neither run was validated yet" in as_lines(run, run)
    assert Opened(as_page(run, run)).said("h3") == []


def test_a_page_lays_one_curve_over_the_other(two):
    page = Opened(as_page(*two))
    bleu = next(plot for plot in overlay(*two) if plot.title == "BLEU")

    assert page.said("h3") == [
        *("Loss", "BLEU", "Learning rate", "Gradient norm", "Throughput")
    ]
    drawn = [(each.name, each.colour) for each in bleu.series if each.points]
    assert drawn == [("one/run", 1), ("two/run", 2)]
    assert "clip_norm" in "".join(page.said("th"))
    assert "data-running" not in page.all("body")[0]


def test_a_measure_of_one_run_alone_is_shown_too(tmp_path, two):
    entry = validation(40)
    entry["scores"] = {"chrf": {**entry["scores"]["bleu"], "name": "chrF"}}
    third = ComparedRun.open(write_run(tmp_path / "three", [start(), entry]))

    titles = [plot.title for plot in overlay(two[0], third)]
    assert titles.count("BLEU") == titles.count("chrF") == 1
    assert "chrF A" in next(
        line for line in as_lines(two[0], third) if "step" in line[:4]
    )


def test_no_text_can_become_markup(tmp_path, two):
    recipe = 'seed = 1\n[training]\nsteps = "</script><img src=x onerror=alert(1)>"\n'
    nasty = ComparedRun.open(write_run(tmp_path / "x <img>", a_run(), recipe))

    page = Opened(as_page(two[0], nasty))
    assert page.all("img") == []
    assert NASTY in page.said("td")


def test_what_is_no_run_cannot_be_compared(tmp_path):
    with pytest.raises(UsageError, match="is not a run"):
        ComparedRun.open(tmp_path)


def test_bars_are_as_high_as_their_values():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 0, 7) == BARS
    assert sparkline([5.0, 5.0], 5.0, 5.0) == "▁▁"
    assert sparkline([-9.0, 99.0], 0, 7) == "▁█"
