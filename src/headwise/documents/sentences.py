"""Long lines: cut where a reader would pause, translated piece by piece, rejoined.

A line that is longer than a model was trained for is cut into sentences. A sentence
that is still too long is cut at semicolons and colons, then at commas, then at white
space, and a stretch without any of these between characters. Nothing is lost: the
pieces and what stood between them are the line.
"""
# ruff: noqa: RUF001 - punctuation of many scripts stands here on purpose

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

Fits = Callable[[str], bool]

# Where a text may be cut: the white space, perhaps none, that becomes a separator.
Gap = tuple[int, int]


class Piece(NamedTuple):
    """A stretch of a line, to be translated by itself."""

    text: str
    """What is to be translated; without white space at its ends."""

    separator: str
    """The white space, perhaps none, that stood between it and the next piece."""


def split_long(text: str, fits: Fits) -> Iterator[Piece]:
    r"""Cut ``text`` into pieces for which ``fits`` says that they are short enough.

    A text that fits is one piece. Else each sentence is a piece, since sentences are
    what models are mostly trained on, and a sentence that does not fit becomes as few
    pieces as there must be. A single character that does not fit is a piece too.
    ``"".join(piece.text + piece.separator for piece in pieces)`` is ``text``. They come
    one by one, so that a line of many megabytes is not cut before any is translated.

    A ``\r`` inside the text ends a line in the eyes of whoever wrote it, though here
    only ``\n`` does: what stands between two of them is treated as a text of its own.
    """
    if "\r" not in text:
        yield from _split_line(text, fits)
        return
    for line, separator in _apart(text, _gaps_at(r"\r+")(text), end=""):
        *pieces, last = _split_line(line, fits)
        yield from pieces
        yield Piece(last.text, last.separator + separator)


def _split_line(text: str, fits: Fits) -> Iterator[Piece]:
    if fits(text):
        yield Piece(text, "")
        return
    body = text.strip()
    if not body:
        yield Piece("", text)
        return
    start = text.index(body)
    if start:
        yield Piece("", text[:start])
    after = text[start + len(body) :]
    for sentence, separator in _apart(body, _sentence_gaps(body), end=after):
        if fits(sentence):
            yield Piece(sentence, separator)
        else:
            yield from _shortened(sentence, separator, fits, _SMALLER_GAPS)


def rejoin(pieces: Sequence[Piece], translations: Sequence[str]) -> str:
    """Join the translations of ``pieces`` with what stood between the pieces.

    What comes out is one line: a line end that stood there becomes a space. Chinese and
    Japanese have no spaces between sentences and other languages do, so a space is
    added or left out where a translation changes from one custom to the other.
    """
    if len(pieces) != len(translations):
        raise ValueError(
            f"{len(pieces)} pieces need as many translations, not {len(translations)}"
        )
    parts = []
    for place, (piece, translation) in enumerate(
        zip(pieces, translations, strict=True)
    ):
        separator = piece.separator.replace("\n", " ").replace("\r", " ")
        if piece.text and place + 1 < len(pieces):
            needed_none, needs_none = map(_ends_unspaced, (piece.text, translation))
            if needed_none and not needs_none:
                separator = separator or " "
            elif needs_none and not needed_none:
                separator = ""
        parts += [translation, separator]
    return "".join(parts)


def _ends_unspaced(text: str) -> bool:
    """Say whether ``text`` ends in a script that puts no space behind a sentence."""
    return bool(_UNSPACED.search(text))


# Chinese and Japanese characters and punctuation; Korean has spaces.
_UNSPACED = re.compile(
    r"[\u2e80-\ua4cf\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]\Z"
)


# Sentences

# Runs are matched from their start and never in part, or a line of nothing but full
# stops would take time that grows with the square of its length.
_SENTENCE_END = re.compile(
    r"""
    (?<! [.!?…] ) (?P<mark> [.!?…]++ )  # a mark that needs white space behind it,
    ["'”’»›)\]}]*+                      # what closes,
    (?P<space> \s++ )
    (?: ["'“‘«‹„(\[{¿¡]* )              # what opens, and how the next sentence starts
    (?P<next> \S )
    |
    (?<! [。！？｡] ) [。！？｡]++ [」』】）》”’]*+ (?P<gap> \s*+ ) (?= \S )
    """,
    re.VERBOSE,
)
_LAST_WORD = re.compile(r"[\w.]*\w$")
_LONGEST_WORD = 20

# These end with a full stop, and hardly ever a sentence with it.
_TITLES_AND_THE_LIKE = """
    mr mrs ms dr prof st sr jr vs cf ca approx capt sgt lt rev hon gov sen gen messrs
    bzw vgl ggf evtl inkl hr fr sog mme mlle mgr sra srta dott sig
"""
_ABBREVIATIONS = frozenset(_TITLES_AND_THE_LIKE.split())
_COUNTED_THINGS = "no nr vol fig eq pp art abb bd nos núm sec ch"
_BEFORE_NUMBERS = frozenset(_COUNTED_THINGS.split())


def _sentence_gaps(text: str) -> Iterator[Gap]:
    # In text without capitals, a small letter says nothing about where sentences start.
    has_capitals = text != text.lower()
    position = 0
    while match := _SENTENCE_END.search(text, position):
        if match["mark"] is None:
            position = match.end()
            yield match.span("gap")
            continue
        # The first letter of the next sentence may be all there is of it.
        position = match.end("space")
        starts_small = has_capitals and match["next"].islower()
        if not starts_small and not _is_abbreviation(text, match):
            yield match.span("space")


def _is_abbreviation(text: str, match: re.Match[str]) -> bool:
    """Say whether the full stop found belongs to the word before it."""
    if match["mark"] != ".":
        return False
    end = match.start()
    found = _LAST_WORD.search(text[max(0, end - _LONGEST_WORD) : end])
    if not found:
        return False
    word = found.group().lower()
    if word.isdecimal():  # German writes ordinals so: am 3. Mai
        return len(word) <= 2
    if match["next"].isdecimal() and word in _BEFORE_NUMBERS:
        return True
    return (
        len(word) == 1
        or ("." in word and word.replace(".", "").isalpha())
        or word in _ABBREVIATIONS
    )


# Smaller than sentences


FindGaps = Callable[[str], Iterator[Gap]]


def _gaps_at(pattern: str) -> FindGaps:
    compiled = re.compile(pattern)

    def gaps(text: str) -> Iterator[Gap]:
        return (match.span() for match in compiled.finditer(text))

    return gaps


def _gaps_before_letters(text: str) -> Iterator[Gap]:
    """Yield the places between characters, marks kept with what they stand on."""
    return (
        (place, place)
        for place in range(1, len(text))
        if not unicodedata.category(text[place]).startswith("M")
    )


def _gaps_anywhere(text: str) -> Iterator[Gap]:
    return ((place, place) for place in range(1, len(text)))


_SMALLER_GAPS: tuple[FindGaps, ...] = (
    _gaps_at(r"(?<=[;:])\s+|(?<=[；：])\s*(?=\S)"),
    _gaps_at(r"(?<=,)\s+|(?<=[，、])\s*(?=\S)"),
    _gaps_at(r"\s+"),
    _gaps_before_letters,
    _gaps_anywhere,
)


def _shortened(
    text: str, separator: str, fits: Fits, finders: Sequence[FindGaps]
) -> Iterator[Piece]:
    """Cut ``text``, which does not fit, at the first kind of gap that it has."""
    if not finders:
        yield Piece(text, separator)
        return
    parts = _Ahead(_apart(text, finders[0](text), end=separator))
    if parts.there(2) < 2:
        yield from _shortened(text, separator, fits, finders[1:])
        return
    num_joined = 1
    while parts.there(1):
        num_fitting = _num_fitting(parts, fits, guess=num_joined)
        num_joined = max(1, num_fitting)
        stretch, behind = parts.taken(num_joined)
        if num_fitting:
            yield Piece(stretch, behind)
        else:
            yield from _shortened(stretch, behind, fits, finders[1:])


class _Ahead:
    """Parts of a text with what stands behind each, few of them in memory."""

    def __init__(self, parts: Iterator[tuple[str, str]]) -> None:
        self._parts = parts
        self._read: list[tuple[str, str]] = []

    def there(self, count: int) -> int:
        """Return how many of the next ``count`` parts there are."""
        self._read += islice(self._parts, max(0, count - len(self._read)))
        return min(count, len(self._read))

    def joined(self, count: int) -> str:
        """Put the next parts together, without what stands behind the last one."""
        *first, last = self._read[:count]
        return "".join([part + gap for part, gap in first]) + last[0]

    def taken(self, count: int) -> tuple[str, str]:
        """Take the next parts away: what they are together and what stands behind."""
        found = self.joined(count), self._read[count - 1][1]
        del self._read[:count]
        return found


def _num_fitting(parts: _Ahead, fits: Fits, *, guess: int) -> int:
    """Count the next parts that fit together, perhaps none.

    Asks for ``guess`` parts, doubles while they fit, and then halves the doubt: asking
    is what costs, and more so the longer the text is.
    """
    fitting, count = 0, guess
    too_many: int | None = None
    while too_many is None or too_many - fitting > 1:
        there = parts.there(count)
        if there < count:
            too_many, count = there + 1, there
        if count > fitting and fits(parts.joined(count)):
            fitting = count
        elif count > fitting:
            too_many = count
        count = 2 * fitting or 1
        if too_many is not None:
            count = min(count, (fitting + too_many) // 2)
    return fitting


def _apart(text: str, gaps: Iterable[Gap], *, end: str) -> Iterator[tuple[str, str]]:
    """Cut ``text`` at ``gaps``: each part and what stood behind it, ``end`` at last."""
    start = 0
    for gap_start, gap_end in gaps:
        yield text[start:gap_start], text[gap_start:gap_end]
        start = gap_end
    yield text[start:], end
