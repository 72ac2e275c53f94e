"""Progress messages of a long translation."""

import pytest

from headwise.cli.translation_progress import SECONDS_BETWEEN_LINES, TranslationProgress
from headwise.inference.streaming_translation import Progress


@pytest.fixture
def clock(monkeypatch):
    """Return a list whose only item is the time."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def said(clock, capsys):
    progress = TranslationProgress(lambda number: f"a.en, line {number}")

    def after(seconds, *facts):
        clock[0] += seconds
        progress(Progress(*facts))
        return capsys.readouterr().err

    return after


def test_a_short_translation_prints_no_progress(said):
    assert said(1, 4000) == ""
    assert said(SECONDS_BETWEEN_LINES - 2, 8000) == ""


def test_lines_are_counted(said):
    assert said(SECONDS_BETWEEN_LINES, 12_000) == "lines translated: 12,000\n"
    assert said(SECONDS_BETWEEN_LINES / 2, 14_000) == ""
    assert said(SECONDS_BETWEEN_LINES / 2, 16_000) == "lines translated: 16,000\n"


def test_progress_of_a_long_line_has_its_number_fraction_and_time_left(said):
    """A tenth in 30 s, after the first tenth: 240 s for the other eight."""
    assert said(10, 6, 100_000, 1_000_000) == ""
    assert said(30, 6, 200_000, 1_000_000) == (
        "a.en, line 7: 20% of its 1,000,000 characters translated, 4 min left\n"
    )


def test_the_first_report_of_a_line_has_no_speed_yet(said):
    assert said(60, 6, 100_000, 1_000_000) == (
        "a.en, line 7: 10% of its 1,000,000 characters translated\n"
    )
