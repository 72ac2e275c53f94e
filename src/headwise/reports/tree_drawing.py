"""Constituency trees as text for terminals, and as SVG."""

from __future__ import annotations

import re
import unicodedata
from html import escape

from headwise.reports.tree_layout import PlacedBracket, TreeLayout, lay_out
from headwise.text.trees import Tree

NO_WIDTH = ("Mn", "Me", "Cf")
"""Unicode categories of characters that take no cell, as combining accents."""

NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that XML cannot have, not even escaped."""

GAP_CELLS = 2
"""Blank cells between the columns of words in text."""

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
LINES = {
    UP | DOWN: "│",
    LEFT | RIGHT: "─",
    DOWN | RIGHT: "┌",
    DOWN | LEFT: "┐",
    DOWN | LEFT | RIGHT: "┬",
    UP | LEFT | RIGHT: "┴",
    UP | DOWN | LEFT | RIGHT: "┼",
    UP | DOWN | RIGHT: "├",
    UP | DOWN | LEFT: "┤",
}
"""Box-drawing characters by the directions in which they have lines."""

TO_ASCII = str.maketrans("│─┌┐┬┴┼├┤", "|-+++++++")

FONT_SIZE, LETTER, GAP, LEVEL, MARGIN = 15, 8.4, 18, 46, 12
"""Sizes of the SVG, in pixels; LETTER is the width of an average letter."""


def tree_text(tree: Tree, *, ascii_only: bool = False) -> str:
    """Return ``tree`` as lines of text: labels above, each word below its tag.

    Lines between labels are box-drawing characters, or ``+-|`` if ``ascii_only``.
    """
    layout = lay_out(tree, cells, GAP_CELLS)
    children = _children(layout)
    rows: list[dict[int, str]] = [{} for _ in range(2 * layout.levels)]
    for index, bracket in enumerate(layout.brackets):
        _write(rows[2 * bracket.level], bracket.label, bracket.centre)
        if bracket.word is not None:
            _write(rows[2 * bracket.level + 1], bracket.word, bracket.centre)
            continue
        for column, directions in _branches(bracket, children[index]).items():
            rows[2 * bracket.level + 1][column] = _line(directions, ascii_only)
        for child in children[index]:
            for row in rows[2 * bracket.level + 2 : 2 * child.level]:
                row[child.centre] = _line(UP | DOWN, ascii_only)
    return "\n".join(_join(row) for row in rows)


def _branches(bracket: PlacedBracket, children: list[PlacedBracket]) -> dict[int, int]:
    """Return the directions of the lines below a label, by column."""
    left, right = children[0].centre, children[-1].centre
    branches = {
        column: LEFT * (column > left) | RIGHT * (column < right)
        for column in range(left, right + 1)
    }
    branches[bracket.centre] |= UP
    for child in children:
        branches[child.centre] |= DOWN
    return branches


def _line(directions: int, ascii_only: bool) -> str:
    line = LINES[directions]
    return line.translate(TO_ASCII) if ascii_only else line


def _write(row: dict[int, str], text: str, centre: int) -> None:
    row[centre - (cells(text) - 1) // 2] = text


def _join(row: dict[int, str]) -> str:
    line, width = "", 0
    for column in sorted(row):
        line += " " * (column - width) + row[column]
        width = column + cells(row[column])
    return line


def cells(text: str) -> int:
    """Return the width of ``text`` in a terminal: 2 for wide letters of East Asia."""
    return sum(
        1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
        if unicodedata.category(each) not in NO_WIDTH
    )


def tree_svg(tree: Tree) -> str:
    """Return ``tree`` as an SVG: labels above, each word below its tag.

    Lines and letters have the colour of the text around it. The SVG needs nothing but
    itself.
    """
    layout = lay_out(tree, _pixels, GAP)
    width = layout.width + 2 * MARGIN
    height = LEVEL * (layout.levels - 1) + 3 * FONT_SIZE + 2 * MARGIN
    lines = "".join(
        _svg_line(layout.brackets[each.parent], each)
        for each in layout.brackets
        if each.parent is not None
    )
    texts = "".join(_svg_texts(each) for each in layout.brackets)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" '
        f'aria-label="{_xml(str(tree))}" font-family="system-ui, sans-serif" '
        f'font-size="{FONT_SIZE}" text-anchor="middle" fill="currentColor">'
        f'<g fill="none" stroke="currentColor" opacity="0.5">{lines}</g>'
        f"{texts}</svg>"
    )


def _svg_line(parent: PlacedBracket, child: PlacedBracket) -> str:
    """Return a line from below a label to above one of its children's.

    It goes down, sideways and down: straight lines to far tags would cross others.
    """
    top = _baseline(parent) + 5
    return (
        f'<path d="M{MARGIN + parent.centre} {top}v9H{MARGIN + child.centre}'
        f'V{_baseline(child) - FONT_SIZE}"/>'
    )


def _svg_texts(bracket: PlacedBracket) -> str:
    x, y = MARGIN + bracket.centre, _baseline(bracket)
    if bracket.word is None:
        return f'<text x="{x}" y="{y}" font-weight="600">{_xml(bracket.label)}</text>'
    return (
        f'<text x="{x}" y="{y}" fill-opacity="0.65">{_xml(bracket.label)}</text>'
        f'<text x="{x}" y="{y + 1.4 * FONT_SIZE:.0f}">{_xml(bracket.word)}</text>'
    )


def _xml(text: str) -> str:
    return escape(NOT_XML.sub("\ufffd", text))


def _baseline(bracket: PlacedBracket) -> int:
    return MARGIN + FONT_SIZE + LEVEL * bracket.level


def _pixels(text: str) -> int:
    return round(LETTER * cells(text))


def _children(layout: TreeLayout) -> list[list[PlacedBracket]]:
    """Return the children of each bracket."""
    children: list[list[PlacedBracket]] = [[] for _ in layout.brackets]
    for bracket in layout.brackets:
        if bracket.parent is not None:
            children[bracket.parent].append(bracket)
    return children
