"""Tell pairs of words from pairs of texts: pronunciations, forms, transliterations."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Literal

WordPairs = Literal["symbols", "characters"]
"""What words stand with: symbols with spaces between them, such as phones, or words."""

SHARE = 0.9
"""Share of the pairs that must be of words."""

FREQUENT = 10
"""How often each symbol of an inventory occurs on average, at least."""

INSIDE = "-'’·."
"""Punctuation that stands in words."""


def word_pairs(pairs: Iterable[tuple[str, str]]) -> WordPairs | None:
    """Return what nearly all of the pairs are, if they are of words.

    None for texts, and for words with glosses of several words. Symbols are few, each
    of them frequent, beside words that are not; those may be of up to three parts, such
    as syllables.
    """
    total = words = symbol_pairs = 0
    sources, targets = Inventory(), Inventory()
    for source, target in pairs:
        total += 1
        words += is_word(source) and is_word(target)
        if is_word(source, parts=3):
            symbol_pairs += 1
            sources.add(source.split())
            targets.add(target.split())
    if words and words >= SHARE * total:
        return "characters"
    are_symbols = targets.is_frequent and not sources.is_frequent
    return "symbols" if are_symbols and symbol_pairs >= SHARE * total else None


class Inventory:
    """The different parts of texts, and how many they are in all."""

    def __init__(self) -> None:
        self.different: set[str] = set()
        self.total = 0

    def add(self, parts: list[str]) -> None:
        """Count the parts of a text."""
        self.different.update(parts)
        self.total += len(parts)

    @property
    def is_frequent(self) -> bool:
        """Whether each part occurs ``FREQUENT`` times, on average."""
        return self.total >= FREQUENT * max(len(self.different), 1)


def is_word(text: str, *, parts: int = 1) -> bool:
    """Tell whether ``text`` is a word: few parts, and no punctuation of a sentence."""
    found = text.split()
    return (
        0 < len(found) <= parts
        and not found[-1].endswith(".")
        and not any(
            unicodedata.category(each).startswith("P") and each not in INSIDE
            for each in text
        )
    )
