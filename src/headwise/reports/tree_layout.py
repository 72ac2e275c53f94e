"""Where the brackets of a tree are drawn: columns of words, levels of labels.

Each word has a column as wide as its word and tag; columns grow where a label above
them is wider. A label is centred over its columns, so that labels never overlap.
Phrases stand at their depth; all tags share the level below the deepest phrase.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwise.text.trees import Tree, unescape_brackets

Measure = Callable[[str], int]
"""Width of a text: in cells of a terminal, or in pixels."""


@dataclass(slots=True)
class PlacedBracket:
    """A bracket of a tree, and where its label is drawn."""

    label: str
    parent: int | None
    """Index of the bracket around it."""

    level: int
    """Rows of labels above it."""

    first: int
    """Index of its first word."""

    last: int
    """Index of its last word."""

    word: str | None = None
    """The word of a preterminal, with brackets as text has them."""

    centre: int = 0
    """Horizontal position of the middle of the label."""


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """All brackets of a tree, parents before children, and the size of the drawing."""

    brackets: list[PlacedBracket]
    width: int
    levels: int
    """Rows of labels, the row of tags included."""


def lay_out(tree: Tree, measure: Measure, gap: int) -> TreeLayout:
    """Place all brackets, with ``gap`` between columns."""
    brackets, num_words = _number(tree)
    widths = [1] * num_words
    for bracket in reversed(brackets):  # children before parents
        columns = range(bracket.first, bracket.last + 1)
        taken = sum(widths[column] for column in columns) + gap * (len(columns) - 1)
        needed = max(measure(bracket.label), measure(bracket.word or ""))
        every, rest = divmod(max(0, needed - taken), len(columns))
        for column in columns:
            widths[column] += every + (column - bracket.first < rest)
    starts = [0]
    for width in widths:
        starts.append(starts[-1] + width + gap)
    for bracket in brackets:
        start, end = starts[bracket.first], starts[bracket.last] + widths[bracket.last]
        bracket.centre = (start + end - 1) // 2
    tags = 1 + max((each.level for each in brackets if each.word is None), default=-1)
    for bracket in brackets:
        if bracket.word is not None:
            bracket.level = tags
    return TreeLayout(brackets, starts[-1] - gap, tags + 1)


def _number(tree: Tree) -> tuple[list[PlacedBracket], int]:
    """Return all brackets with parents, depths and words; and the number of words."""
    brackets: list[PlacedBracket] = []
    around: list[int] = []
    position = 0
    for event, node in tree.walk():
        if event == "close":
            brackets[around.pop()].last = position - 1
            continue
        parent = around[-1] if around else None
        word = unescape_brackets(node.word) if event == "word" else None
        brackets.append(
            PlacedBracket(node.label, parent, len(around), position, position, word)
        )
        if event == "open":
            around.append(len(brackets) - 1)
        else:
            position += 1
    return brackets, position
