"""Split long lines into sentences, to be translated separately and rejoined.

A sentence that is still too long is split at semicolons and colons, then at commas, at
white space, and last between characters. Nothing is lost: the pieces and their
separators make up the line.
"""
# ruff: noqa: RUF001 - punctuation of many scripts stands here on purpose

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

Fits = Callable[[str], bool]

# A position to split at: the span of white space, perhaps empty, of a separator.
Gap = tuple[int, int]


class Piece(NamedTuple):
    """A part of a line, to be translated separately."""

    text: str
    """Text to translate; white space at its ends only if it is a whole line."""

    separator: str
    """White space, perhaps empty, between it and the next piece."""


def has_several_sentences(text: str) -> bool:
    """Tell whether ``text`` has several sentences, as far as its marks show it."""
    return next(_sentence_gaps(text.strip()), None) is not None


def split_long(text: str, fits: Fits, *, sentences: bool = False) -> Iterator[Piece]:
    r"""Split ``text`` lazily into pieces for which ``fits`` is true.

    A text that fits is one piece. Otherwise, or with ``sentences``, each sentence is a
    piece, since models are mostly trained on sentences, and a sentence that does not
    fit becomes as few pieces as possible. A single character is a piece even if it does
    not fit.
    ``"".join(piece.text + piece.separator for piece in pieces)`` is ``text``.

    Text is also split at ``\r``, which is a line end to its author.
    """
    if "\r" not in text:
        yield from _split_line(text, fits, sentences)
        return
    for line, separator in _split_at(text, _gaps_at(r"\r+")(text), end=""):
        *pieces, last = _split_line(line, fits, sentences)
        yield from pieces
        yield Piece(last.text, last.separator + separator)


def _split_line(text: str, fits: Fits, sentences: bool) -> Iterator[Piece]:
    if not sentences and fits(text):
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
    for sentence, separator in _split_at(body, _sentence_gaps(body), end=after):
        if fits(sentence):
            yield Piece(sentence, separator)
        else:
            yield from _split_further(sentence, separator, fits, _SMALLER_GAPS)


def rejoin(pieces: Sequence[Piece], translations: Sequence[str]) -> str:
    """Join the translations of ``pieces`` with their separators, as one line.

    Line ends become spaces. Chinese and Japanese have no spaces between sentences, so
    a space is added or removed if source and target differ in that.
    """
    if len(pieces) != len(translations):
        raise ValueError(
            f"{len(pieces)} pieces need as many translations, not {len(translations)}"
        )
    parts = []
    for index, (piece, translation) in enumerate(
        zip(pieces, translations, strict=True)
    ):
        separator = piece.separator.replace("\n", " ").replace("\r", " ")
        if piece.text and index + 1 < len(pieces):
            source_unspaced, target_unspaced = map(
                _ends_unspaced, (piece.text, translation)
            )
            if source_unspaced and not target_unspaced:
                separator = separator or " "
            elif target_unspaced and not source_unspaced:
                separator = ""
        parts += [translation, separator]
    return "".join(parts)


def _ends_unspaced(text: str) -> bool:
    """Return whether ``text`` ends in a script without spaces between sentences."""
    return bool(_UNSPACED.search(text))


# Chinese and Japanese characters and punctuation; Korean has spaces.
_UNSPACED = re.compile(
    r"[\u2e80-\ua4cf\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]\Z"
)


# Sentences

# Runs of marks are matched as a whole, or a line of full stops would take quadratic
# time.
_SENTENCE_END = re.compile(
    r"""
    (?<! [.!?…] ) (?P<mark> [.!?…]++ )  # a mark followed by white space,
    ["'”’»›)\]}]*+                      # closing quotes and brackets,
    (?P<space> \s++ )
    (?: ["'“‘«‹„(\[{¿¡]* )              # opening ones, and the next sentence
    (?P<next> \S )
    |
    (?<! [。！？｡] ) [。！？｡]++ [」』】）》”’]*+ (?P<gap> \s*+ ) (?= \S )
    """,
    re.VERBOSE,
)
_LAST_WORD = re.compile(r"[\w.]*\w$")
_LONGEST_WORD = 20

# These end with a full stop that rarely ends a sentence.
_TITLES = """
    mr mrs ms dr prof st sr jr vs cf ca approx capt sgt lt rev hon gov sen gen messrs
    bzw vgl ggf evtl inkl hr fr sog mme mlle mgr sra srta dott sig
"""
_ABBREVIATIONS = frozenset(_TITLES.split())
_NUMBERED = "no nr vol fig eq pp art abb bd nos núm sec ch"
_BEFORE_NUMBERS = frozenset(_NUMBERED.split())


def _sentence_gaps(text: str) -> Iterator[Gap]:
    # In text without capitals, lower case does not show where sentences start.
    has_capitals = text != text.lower()
    position = 0
    while match := _SENTENCE_END.search(text, position):
        if match["mark"] is None:
            position = match.end()
            yield match.span("gap")
            continue
        # The next sentence may be a single letter.
        position = match.end("space")
        starts_small = has_capitals and match["next"].islower()
        if not starts_small and not _is_abbreviation(text, match):
            yield match.span("space")


def _is_abbreviation(text: str, match: re.Match[str]) -> bool:
    """Return whether the full stop belongs to an abbreviation."""
    return match["mark"] == "." and is_abbreviation(text, match.start(), match["next"])


def is_abbreviation(text: str, end: int, following: str) -> bool:
    """Return whether the word before ``end``, and a full stop there, abbreviates one.

    ``following`` is the first character of the next word.
    """
    found = _LAST_WORD.search(text[max(0, end - _LONGEST_WORD) : end])
    if not found:
        return False
    word = found.group().lower()
    if word.isdecimal():  # German ordinals: am 3. Mai
        return len(word) <= 2
    if following.isdecimal() and word in _BEFORE_NUMBERS:
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
    """Yield the positions between characters, but not before combining marks."""
    return (
        (index, index)
        for index in range(1, len(text))
        if not unicodedata.category(text[index]).startswith("M")
    )


def _gaps_anywhere(text: str) -> Iterator[Gap]:
    return ((index, index) for index in range(1, len(text)))


_SMALLER_GAPS: tuple[FindGaps, ...] = (
    _gaps_at(r"(?<=[;:])\s+|(?<=[；：])\s*(?=\S)"),
    _gaps_at(r"(?<=,)\s+|(?<=[，、])\s*(?=\S)"),
    _gaps_at(r"\s+"),
    _gaps_before_letters,
    _gaps_anywhere,
)


def _split_further(
    text: str, separator: str, fits: Fits, finders: Sequence[FindGaps]
) -> Iterator[Piece]:
    """Split ``text``, which does not fit, at the first kind of gap that it has."""
    if not finders:
        yield Piece(text, separator)
        return
    parts = _Lookahead(_split_at(text, finders[0](text), end=separator))
    if parts.available(2) < 2:
        yield from _split_further(text, separator, fits, finders[1:])
        return
    num_joined = 1
    while parts.available(1):
        num_fitting = _num_fitting(parts, fits, guess=num_joined)
        num_joined = max(1, num_fitting)
        joined, separator_after = parts.take(num_joined)
        if num_fitting:
            yield Piece(joined, separator_after)
        else:
            yield from _split_further(joined, separator_after, fits, finders[1:])


class _Lookahead:
    """Lazily read parts of a text, with the separator after each."""

    def __init__(self, parts: Iterator[tuple[str, str]]) -> None:
        self._parts = parts
        self._read: list[tuple[str, str]] = []

    def available(self, count: int) -> int:
        """Return how many of the next ``count`` parts exist."""
        self._read += islice(self._parts, max(0, count - len(self._read)))
        return min(count, len(self._read))

    def joined(self, count: int) -> str:
        """Return the next parts joined, without the separator after the last one."""
        *first, last = self._read[:count]
        return "".join([part + gap for part, gap in first]) + last[0]

    def take(self, count: int) -> tuple[str, str]:
        """Remove the next parts; return them joined, and the separator after them."""
        found = self.joined(count), self._read[count - 1][1]
        del self._read[:count]
        return found


def _num_fitting(parts: _Lookahead, fits: Fits, *, guess: int) -> int:
    """Return how many of the next parts fit together, perhaps none.

    Exponential, then binary search from ``guess``, as ``fits`` is expensive.
    """
    fitting, count = 0, guess
    too_many: int | None = None
    while too_many is None or too_many - fitting > 1:
        available = parts.available(count)
        if available < count:
            too_many, count = available + 1, available
        if count > fitting and fits(parts.joined(count)):
            fitting = count
        elif count > fitting:
            too_many = count
        count = 2 * fitting or 1
        if too_many is not None:
            count = min(count, (fitting + too_many) // 2)
    return fitting


def _split_at(text: str, gaps: Iterable[Gap], *, end: str) -> Iterator[tuple[str, str]]:
    """Split ``text`` at ``gaps``; yield parts with separators, ``end`` at last."""
    start = 0
    for gap_start, gap_end in gaps:
        yield text[start:gap_start], text[gap_start:gap_end]
        start = gap_end
    yield text[start:], end
