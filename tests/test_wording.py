"""Counts and durations as people write them."""

import re
from pathlib import Path

import pytest

import headwise
from headwise.wording import count_of, duration, without_surrogates


@pytest.mark.parametrize(
    ("count", "noun", "written"),
    [
        (0, "pair", "0 pairs"),
        (1, "pair", "1 pair"),
        (2, "pair", "2 pairs"),
        (1_000_000, "line", "1,000,000 lines"),
        (3, "epoch", "3 epochs"),
    ],
)
def test_one_thing_is_not_many(count, noun, written):
    assert count_of(count, noun) == written


def test_an_odd_plural_can_be_given():
    assert count_of(2, "entry", "entries") == "2 entries"
    assert count_of(1, "entry", "entries") == "1 entry"


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0 s"),
        (0.06, "0.06 s"),
        (0.999, "1 s"),
        (1, "1 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (65, "1 min 05 s"),
        (3600, "1 h"),
        (7800, "2 h 10 min"),
    ],
)
def test_durations_have_the_units_that_people_use(seconds, written):
    """``--max-time 1s`` was repeated as 0.0166667 minutes."""
    assert duration(seconds) == written


def test_bytes_of_a_file_name_that_are_no_text_become_question_marks():
    assert without_surrogates("caf\udce9, é, 😀") == "caf?, é, 😀"


def test_plurals_are_made_in_one_place():
    """Said were "1 lines" and "1 minutes": each file had its own way, or none."""
    sources = Path(headwise.__file__).parent.rglob("*.py")
    by_hand = re.compile(r"""\{['"]e?s['"] if """)

    assert [path.name for path in sources if by_hand.search(path.read_text())] == []
