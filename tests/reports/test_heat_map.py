"""Pictures of attention: each weight in its square, each shade one path."""

import re

import pytest
from tests.reports.conftest import NASTY, Opened

from headwise.reports.heat_map import (
    LEVELS,
    describe_map,
    heat_map,
    readable,
    shade,
    table,
    thumbnail,
)
from headwise.reports.history import AttentionMap

PICTURE = AttentionMap(
    source=["▁the", "▁dog", "</s>"],
    target=["▁Hund", "</s>"],
    weights=[[0.25, 0.75, 0.0], [0.0, 0.0, 1.0]],
)


def cells(text):
    """Return (row, column) of every square, by its shade."""
    return {
        int(path["class"][1:]): [
            (int(row), int(column))
            for column, row in re.findall(r"M(\d+) (\d+)", path["d"])
        ]
        for path in Opened(text).all("path")
    }


@pytest.mark.parametrize("draw", [thumbnail, lambda picture: heat_map(picture, "now")])
def test_each_weight_is_a_square_of_its_shade(draw):
    quarter = LEVELS // 4

    assert cells(draw(PICTURE)) == {
        quarter: [(0, 0)],
        3 * quarter: [(0, 1)],
        LEVELS: [(1, 2)],
    }


def test_shades_go_from_none_to_all():
    assert [shade(each) for each in (-0.1, 0.0, 0.01, 0.5, 1.0, 1.1)] == [
        *(0, 0, 0, LEVELS // 2, LEVELS, LEVELS)
    ]


def test_a_picture_is_said_in_words_and_in_numbers():
    opened = Opened(heat_map(PICTURE, "step 5"))
    (drawn,) = opened.all("svg", role="img")

    assert drawn["aria-label"] == "step 5. ·Hund to ·dog; </s> to </s>"
    assert opened.said("text") == ["·Hund", "</s>", "·the", "·dog", "</s>"]
    assert Opened(table(PICTURE)).said("td") == [
        *("0.25", "0.75", "0.00"),
        *("0.00", "0.00", "1.00"),
    ]


def test_long_pieces_are_cut_where_they_stand_beside_the_squares():
    long = AttentionMap(source=["x" * 99], target=["y" * 99], weights=[[1.0]])

    beside, above = Opened(heat_map(long, "")).said("text")
    assert len(beside) == len(above) == 12
    assert beside.endswith("…")


def test_no_piece_can_become_markup():
    picture = AttentionMap(source=[NASTY], target=[NASTY], weights=[[1.0]])
    for text in (heat_map(picture, NASTY), table(picture)):
        assert Opened(text).all("img") == []
    assert describe_map(picture) == f"{NASTY} to {NASTY}"


def test_a_line_break_is_shown_as_a_sign():
    assert readable("▁a\nb") == "·a⏎b"
