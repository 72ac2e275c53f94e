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
from dataclasses import dataclass

Fits = Callable[[str], bool]

# Where a text may be cut: the white space, perhaps none, that becomes a separator.
Gap = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a line, to be translated by itself."""

    text: str
    """What is to be translated; without white space at its ends."""

    separator: str
    """The white space, perhaps none, that stood between it and the next piece."""


def split_long(text: str, fits: Fits) -> list[Piece]:
    """Cut ``text`` into pieces for which ``fits`` says that they are short enough.

    A text that fits is one piece. Else each sentence is a piece, since sentences are
    what models are mostly trained on, and a sentence that does not fit becomes as few
    pieces as there must be. A single character that does not fit is a piece too.
    ``"".join(piece.text + piece.separator for piece in pieces)`` is ``text``.
    """
    if fits(text):
        return [Piece(text, "")]
    body = text.strip()
    if not body:
        return [Piece("", text)]
    before, after = text.split(body, 1)
    pieces = [Piece("", before)] if before else []
    for sentence, separator in _apart(body, _sentence_gaps(body), end=after):
        if fits(sentence):
            pieces.append(Piece(sentence, separator))
        else:
            pieces += _shortened(sentence, separator, fits, _SMALLER_GAPS)
    return pieces


def rejoin(pieces: Sequence[Piece], translations: Sequence[str]) -> str:
    """Join the translations of ``pieces`` with what stood between the pieces.

    Chinese and Japanese have no spaces between sentences and other languages do, so a
    space is added or left out where a translation changes from one custom to the other.
    """
    if len(pieces) != len(translations):
        raise ValueError(
            f"{len(pieces)} pieces need as many translations, not {len(translations)}"
        )
    parts = []
    for place, (piece, translation) in enumerate(
        zip(pieces, translations, strict=True)
    ):
        separator = piece.separator
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


def _gaps_at(pattern: str) -> Callable[[str], list[Gap]]:
    compiled = re.compile(pattern)

    def gaps(text: str) -> list[Gap]:
        return [match.span() for match in compiled.finditer(text)]

    return gaps


def _gaps_before_letters(text: str) -> list[Gap]:
    """Return the places between characters, marks kept with what they stand on."""
    return [
        (place, place)
        for place in range(1, len(text))
        if not unicodedata.category(text[place]).startswith("M")
    ]


def _gaps_anywhere(text: str) -> list[Gap]:
    return [(place, place) for place in range(1, len(text))]


_SMALLER_GAPS: tuple[Callable[[str], list[Gap]], ...] = (
    _gaps_at(r"(?<=[;:])\s+|(?<=[；：])\s*(?=\S)"),
    _gaps_at(r"(?<=,)\s+|(?<=[，、])\s*(?=\S)"),
    _gaps_at(r"\s+"),
    _gaps_before_letters,
    _gaps_anywhere,
)


def _shortened(
    text: str,
    separator: str,
    fits: Fits,
    finders: Sequence[Callable[[str], list[Gap]]],
) -> Iterator[Piece]:
    """Cut ``text``, which does not fit, at the first kind of gap that it has."""
    if not finders:
        yield Piece(text, separator)
        return
    parts = _apart(text, finders[0](text), end=separator)
    if len(parts) == 1:
        yield from _shortened(text, separator, fits, finders[1:])
        return
    start, num_joined = 0, 1
    while start < len(parts):
        num_fitting = _num_fitting(parts, start, fits, guess=num_joined)
        num_joined = max(1, num_fitting)
        stretch = _joined(parts[start : start + num_joined])
        start += num_joined
        if num_fitting:
            yield Piece(stretch, parts[start - 1][1])
        else:
            yield from _shortened(stretch, parts[start - 1][1], fits, finders[1:])


def _num_fitting(
    parts: Sequence[tuple[str, str]], start: int, fits: Fits, *, guess: int
) -> int:
    """Count the parts from ``start`` on that fit together, perhaps none.

    Asks for ``guess`` parts, doubles while they fit, and then halves the doubt: asking
    is what costs, and more so the longer the text is.
    """
    most = len(parts) - start
    fitting, too_many = 0, most + 1
    count = min(guess, most)
    while too_many - fitting > 1:
        if fits(_joined(parts[start : start + count])):
            fitting = count
        else:
            too_many = count
        count = min(2 * fitting or 1, (fitting + too_many) // 2)
    return fitting


def _joined(parts: Sequence[tuple[str, str]]) -> str:
    """Put parts together again, without what stood behind the last one."""
    return "".join(part + gap for part, gap in parts[:-1]) + parts[-1][0]


def _apart(text: str, gaps: Iterable[Gap], *, end: str) -> list[tuple[str, str]]:
    """Cut ``text`` at ``gaps``: each part and what stood behind it, ``end`` at last."""
    parts, start = [], 0
    for gap_start, gap_end in gaps:
        parts.append((text[start:gap_start], text[gap_start:gap_end]))
        start = gap_end
    parts.append((text[start:], end))
    return parts
