"""Constituency trees, read from and written in the brackets of the Penn Treebank.

    (S (NP (DT the) (NN dog)) (VP (VBZ barks)))

A word stands in a bracket of its own, its *preterminal*, whose label is its
part-of-speech tag; all other brackets are *phrases* and hold brackets. Brackets that
are words are written ``-LRB-`` and ``-RRB-``. Only the white space of ASCII separates
labels and words.

Trees may be deeper than Python's recursion limit, so nothing here recurses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from headwise.errors import DataError, UsageError
from headwise.text.lines import Line
from headwise.wording import count_of

Event = Literal["open", "word", "close"]

ESCAPES = {
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
}
"""Brackets in words, and how the Penn Treebank writes them."""

_UNESCAPED = {escape: bracket for bracket, escape in ESCAPES.items()}
_ESCAPE = re.compile("|".join(_UNESCAPED))
_BLANK = r" \t\n\r\f\v"
_TOKEN = re.compile(rf"[()]|[^(){_BLANK}]+")
_WORD = re.compile(rf"[^{_BLANK}]+")
_SEPARATOR = re.compile(rf"[(){_BLANK}]")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A bracket of a constituency tree, with all that is in it.

    Raises ``UsageError`` for a label or word that cannot be written in brackets, and
    for a phrase without children.
    """

    label: str
    """Label of a phrase, or tag of a word; only the outermost phrase may have none."""

    children: tuple[Tree, ...] | str
    """Subtrees of a phrase, at least one; of a preterminal, the word."""

    def __post_init__(self) -> None:
        word = self.children if isinstance(self.children, str) else None
        for what, text in (("label", self.label), ("word", word)):
            if text and _SEPARATOR.search(text):
                raise UsageError(
                    f"a {what} must not have white space or brackets: {text!r}; "
                    "escape_brackets writes brackets as -LRB- and -RRB-"
                )
        if not self.children:
            what = "a word is empty" if word == "" else "a phrase has no children"
            raise UsageError(f"({self.label}: {what}")
        if word and not self.label:
            raise UsageError(f"the word {word!r} has an empty tag; use XX if unknown")
        if any(not child.label for child in self.subtrees):
            raise UsageError(f"a bracket in ({self.label} has no label; each needs one")

    @property
    def is_preterminal(self) -> bool:
        """Whether this bracket holds a word, not brackets."""
        return isinstance(self.children, str)

    @property
    def word(self) -> str:
        """The word of a preterminal."""
        assert isinstance(self.children, str), f"({self.label} is a phrase"
        return self.children

    @property
    def subtrees(self) -> tuple[Tree, ...]:
        """The children of a phrase; none of a preterminal."""
        return () if isinstance(self.children, str) else self.children

    @property
    def words(self) -> list[str]:
        """All words, in order."""
        return [node.word for event, node in self.walk() if event == "word"]

    @property
    def tags(self) -> list[str]:
        """The tags of all words, in order."""
        return [node.label for event, node in self.walk() if event == "word"]

    def walk(self) -> Iterator[tuple[Event, Tree]]:
        """Yield all brackets as they stand in text.

        A phrase comes twice, as ``open`` and as ``close``, a preterminal once, as
        ``word``.
        """
        waiting = [(self, False)]
        while waiting:
            node, is_open = waiting.pop()
            if is_open:
                yield "close", node
            elif isinstance(node.children, str):
                yield "word", node
            else:
                yield "open", node
                waiting.append((node, True))
                waiting.extend((child, False) for child in reversed(node.children))

    def __str__(self) -> str:
        """Return the tree in brackets, on one line."""
        parts: list[str] = []
        for event, node in self.walk():
            if event == "close":
                parts.append(")")
                continue
            parts.append(" (" if parts else "(")
            parts.append(node.label)
            if event == "word":
                parts.append(f" {node.word})")
        return "".join(parts)

    def __repr__(self) -> str:
        return f"parse_tree({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Tree) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[object, ...]:
        # Without it, pickle and copy would recurse into each level.
        return _from_text, (str(self),)


def _from_text(text: str) -> Tree:
    return parse_tree(text, keep_outer=True)


@dataclass(slots=True)
class _OpenBracket:
    """A bracket that is being read, and where it began."""

    line: int
    column: int
    label: str | None = None
    word: str | None = None
    children: list[Tree] = field(default_factory=list)

    def __str__(self) -> str:
        return f"({self.label or ''}"

    @property
    def place(self) -> str:
        return f"line {self.line:,}, column {self.column:,}"


def parse_tree(text: str, *, name: str = "text", keep_outer: bool = False) -> Tree:
    """Return the one tree of ``text``; ``name`` is what errors call it.

    Raises ``DataError`` as :func:`numbered_trees` does, and for none or several trees.
    """
    lines = (Line(number, line) for number, line in enumerate(text.split("\n"), 1))
    trees = list(parse_trees(lines, name=name, keep_outer=keep_outer))
    if len(trees) != 1:
        raise DataError(f"{name} has {count_of(len(trees), 'tree')}; one is needed")
    return trees[0]


def parse_trees(
    lines: Iterable[Line],
    *,
    name: str,
    keep_outer: bool = False,
    join_words: str | None = None,
) -> Iterator[Tree]:
    """Yield the trees of a file: :func:`numbered_trees` without their lines."""
    numbered = numbered_trees(
        lines, name=name, keep_outer=keep_outer, join_words=join_words
    )
    for _, tree in numbered:
        yield tree


def numbered_trees(
    lines: Iterable[Line],
    *,
    name: str,
    keep_outer: bool = False,
    join_words: str | None = None,
) -> Iterator[tuple[int, Tree]]:
    """Yield the trees of a file, however they are divided into lines.

    With each comes the number of the line that it begins in.

    An outermost bracket without label around one bracket, as the Penn Treebank has it,
    is left out unless ``keep_outer``. Several words in a bracket, as in (NN a dog),
    are one word with ``join_words`` between them, or an error if that is None.

    Raises ``DataError`` with file, line and column for brackets that do not match,
    empty brackets, missing labels, and words that are not alone in their bracket.
    """
    open_brackets: list[_OpenBracket] = []
    first = 0  # line of the outermost bracket
    for line in lines:
        for match in _TOKEN.finditer(line.text):
            token, column = match[0], match.start() + 1
            try:
                if token == "(":
                    first = first if open_brackets else line.number
                    _open(open_brackets, _OpenBracket(line.number, column))
                elif token == ")":
                    tree = _close(open_brackets)
                    if tree is not None:
                        yield first, tree if keep_outer else without_outer(tree)
                else:
                    _add_text(open_brackets, token, join_words)
            except _Malformed as error:
                place = f"{name}, line {line.number:,}, column {column:,}"
                raise DataError(f"{place}: {error}") from None
    if open_brackets:
        *around, innermost = open_brackets
        more = f", and {count_of(len(around), 'bracket')} around it" if around else ""
        raise DataError(
            f"the file {name} ends while {innermost} of {innermost.place} is "
            f"open{more}; each '(' needs its ')'"
        )


def without_outer(tree: Tree, labels: Iterable[str] = ("",)) -> Tree:
    """Return the only child of ``tree`` if the label of ``tree`` is one of ``labels``.

    Else, or if it is a word with its tag below a phrase with a label, return ``tree``.
    """
    if tree.label not in labels or len(tree.subtrees) != 1:
        return tree
    (inner,) = tree.subtrees
    return tree if tree.label and inner.is_preterminal else inner


class _Malformed(Exception):  # noqa: N818 - becomes a DataError with its place
    """What is wrong at a token."""


def _open(open_brackets: list[_OpenBracket], new: _OpenBracket) -> None:
    if open_brackets:
        parent = open_brackets[-1]
        if parent.word is not None:
            raise _Malformed(
                f"a bracket follows the word {parent.word!r} in {parent} of "
                f"{parent.place}; a bracket holds one word, or brackets"
            )
        if parent.label is None:
            if len(open_brackets) > 1:
                raise _Malformed(
                    f"the bracket of {parent.place} has no label; only the outermost "
                    f"one may have none, and that of {open_brackets[0].place} is open: "
                    "if another tree begins here, a ')' is missing before it"
                )
            parent.label = ""
    open_brackets.append(new)


def _close(open_brackets: list[_OpenBracket]) -> Tree | None:
    """Close the innermost bracket; return the tree if it was the outermost."""
    if not open_brackets:
        raise _Malformed("')' closes nothing; no bracket is open here")
    closed = open_brackets.pop()
    if closed.word is None and not closed.children:
        raise _Malformed(
            f"{closed} of {closed.place} is empty; a bracket holds a word, or brackets"
        )
    tree = Tree(closed.label or "", closed.word or tuple(closed.children))
    if not open_brackets:
        return tree
    open_brackets[-1].children.append(tree)
    return None


def _add_text(
    open_brackets: list[_OpenBracket], token: str, join_words: str | None
) -> None:
    """Take a label, or a word."""
    if not open_brackets:
        raise _Malformed(
            f"{token!r} is outside of all brackets; a tree begins with '('"
        )
    innermost = open_brackets[-1]
    if innermost.label is None:
        innermost.label = token
    elif innermost.word is None and not innermost.children and innermost.label:
        innermost.word = token
    elif innermost.word is not None and join_words is not None:
        innermost.word += join_words + token
    else:
        other = f"the word {innermost.word!r}" if innermost.word else "a bracket"
        hint = "; join_words makes one word of several" if innermost.word else ""
        raise _Malformed(
            f"{token!r} follows {other} in {innermost} of {innermost.place}; each word "
            f"needs a bracket of its own with its tag, as in (NN dog){hint}"
        )


def split_words(text: str) -> list[str]:
    """Return the words of a sentence, as they stand between ASCII white space.

    A no-break space is part of a word, as it is in trees.
    """
    return _WORD.findall(text)


def escape_brackets(word: str) -> str:
    """Return ``word`` as trees have it: parentheses as ``-LRB-`` and ``-RRB-``."""
    return word.replace("(", ESCAPES["("]).replace(")", ESCAPES[")"])


def unescape_brackets(word: str) -> str:
    """Return ``word`` as text has it: ``-LRB-``, ``-LSB-`` and so on as brackets."""
    return _ESCAPE.sub(lambda match: _UNESCAPED[match[0]], word)
