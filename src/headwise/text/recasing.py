"""Recasing: texts in capitals are translated in lower case.

A model learns from ordinary text, in which capitals begin sentences and names. A text
that is all capitals, or has one at the start of every word, is cut into pieces that the
model has hardly seen. In lower case it is ordinary text but for its names (compare
the recaser of Koehn et al. 2007, "Moses").
"""

from __future__ import annotations

import re
from enum import Enum

from headwise.text.placeholders import PLACEHOLDER


class Casing(Enum):
    """How upper and lower case are used in a text."""

    ORDINARY = "ordinary"
    CAPITALS = "capitals"
    TITLE = "title"
    """A capital at the start of each word, as in some headings."""


TITLE_WORDS = 4
"""Words that a text needs to be a title: fewer may be a name."""

SHOUTED = 5
"""Letters that a single word in capitals needs: a shorter one may be an acronym."""

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_AFTER_APOSTROPHE = re.compile(r"['’].")


def casing_of(text: str) -> Casing:
    """Tell how a text uses capitals; placeholders do not count."""
    words = [
        each
        for each in _WORD.findall(text.replace(PLACEHOLDER, " "))
        if each.lower() != each.upper()
    ]
    longest = max(map(len, words), default=0)
    if all(map(str.isupper, words)) and (
        longest >= SHOUTED or len(words) > 1 < longest
    ):
        return Casing.CAPITALS
    if len(words) >= TITLE_WORDS and longest > 1 and all(map(_is_title, words)):
        return Casing.TITLE
    return Casing.ORDINARY


def _is_title(word: str) -> bool:
    rest = _AFTER_APOSTROPHE.sub("", word[1:])  # Don't, L'Eau
    return word[0].isupper() and rest == rest.lower()


def recase(text: str) -> str:
    """Return the text in lower case, its first letter a capital."""
    first, *others = (part.lower() for part in text.split(PLACEHOLDER))
    if match := _WORD.search(first):
        start = match.start()
        first = first[:start] + first[start].title() + first[start + 1 :]
    return PLACEHOLDER.join([first, *others])


def in_capitals(text: str) -> str:
    """Return the text in capitals, its placeholders as they are."""
    return PLACEHOLDER.join(part.upper() for part in text.split(PLACEHOLDER))
