"""The words of the training sources, which tell the names that are copied from others.

A small model spells a name that it has never seen from pieces, and loses itself in
them: *Kowalski* becomes *Kowowowaï*. A name has capitals and mostly stands in the
translation as it is, so that it can be copied by a placeholder, as rare words are by
Luong et al. 2015, "Addressing the Rare Word Problem in Neural Machine Translation".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from headwise.errors import ModelError
from headwise.storage import read_json, write_json
from headwise.text.sentence_splitter import is_abbreviation

FILE = "known_words.json"

RARE = 5
"""A name that was seen less often than this is copied, if its translations are it."""

SHARED = 0.8
"""Share of the pairs of such a name whose target has it too."""

NAMES = 0.3
"""The same share of words with a capital that were seen once, from which such words
are names. Where nouns have capitals it is far less: in German 0.06, in English and
French 0.6."""

ENOUGH = 20
"""Words that this share is taken of, at least."""

MOST_WORDS = 200_000
"""Words that are kept, the most frequent ones."""

LARGEST_COUNT = 1_000_000
"""Different words that are counted at a time; beyond, those seen once are forgotten."""

PREFIX = 4
"""Letters that the beginning of a word needs to be a word that it comes from."""

Span = tuple[int, int]


@dataclass(frozen=True)
class KnownWords:
    """The words that a model has learned to translate."""

    words: frozenset[str]
    """In lower case."""

    capitals_are_names: bool = True
    """Whether a word with a capital inside of a sentence is mostly a name."""

    def name_spans(self, text: str) -> Iterator[Span]:
        """Yield the spans of names that are not known; neighbours are one span.

        A word with a capital after its first letter, such as NASA or YouTube, is a name
        anywhere. Others are so inside of a sentence, and at the start of one if no
        known word could be their stem.
        """
        last: Span | None = None
        for word, after in pairwise([*_words(text), None]):
            if word is None or not self._is_name(word, after):
                continue
            if last is not None and text[last[1] : word.start].isspace():
                last = last[0], word.end
                continue
            if last is not None:
                yield last
            last = word.start, word.end
        if last is not None:
            yield last

    def _is_name(self, word: _Word, after: _Word | None) -> bool:
        """Tell whether a word is a name, by the one after it if there is one."""
        if not word.has_capital or word.text.lower() in self.words:
            return False
        if word.has_inner_capital:
            return True
        if not (self.capitals_are_names and word.text[0].isupper()):
            return False
        if not word.is_first or not self._has_known_stem(word.text):
            return True
        return after is not None and after.follows_space and after.text[0].isupper()

    def _has_known_stem(self, word: str) -> bool:
        """Tell whether a word may be a form of a known one."""
        lower = word.lower()
        stems = range(max(PREFIX, (len(lower) + 1) // 2), len(lower))
        parts = lower.split("-") if "-" in lower else []
        return any(lower[:stem] in self.words for stem in stems) or any(
            part in self.words for part in parts
        )

    def save(self, file: Path) -> None:
        """Write a file for ``open``; equal words give equal bytes."""
        write_json(
            file,
            {
                "capitals_are_names": self.capitals_are_names,
                "words": " ".join(sorted(self.words)),
            },
        )

    @classmethod
    def open(cls, file: Path) -> KnownWords:
        """Read such a file; raise ``ModelError`` if it is none."""
        table: Any = read_json(file)
        words = table.get("words") if isinstance(table, dict) else None
        names = table.get("capitals_are_names") if isinstance(table, dict) else None
        if not isinstance(words, str) or not isinstance(names, bool):
            raise ModelError(f"{file} is not a list of known words")
        return cls(frozenset(words.split()), names)

    def __or__(self, other: KnownWords) -> KnownWords:
        """Return the words of both, for a model that goes on from another one.

        Capitals are names if either says so: a little text has too few to tell.
        """
        either = self.capitals_are_names or other.capitals_are_names
        return KnownWords(self.words | other.words, either)


def learn_known_words(pairs: Iterable[tuple[str, str]]) -> KnownWords:
    """Return the words of the sources of training pairs, but for rare names.

    A name is rare if it was seen less often than ``RARE`` inside of sentences, and
    most of the targets have it too. The same pairs give the same words.
    """
    counts: Counter[str] = Counter()
    capital: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    small: set[str] = set()
    for source, target in pairs:
        in_target = {word.text for word in _words(target)}
        for word in _words(source):
            lower = word.text.lower()
            if lower == word.text.upper():  # of a script without capitals
                continue
            counts[lower] += 1
            if word.text == lower:
                small.add(lower)
            elif not word.is_first:
                capital[word.text] += 1
                shared[word.text] += word.text in in_target
        if len(counts) > LARGEST_COUNT:
            counts, capital = _seen_again(counts), _seen_again(capital)
            small &= counts.keys()
            shared = Counter({word: shared[word] for word in capital})
    names = {word for word in capital if word.lower() not in small}
    once = [word for word in names if capital[word] == 1]
    share = sum(shared[word] for word in once) / max(1, len(once))
    rare = {
        word.lower()
        for word in names
        if capital[word] < RARE and shared[word] >= SHARED * capital[word]
    }
    kept = sorted(counts.keys() - rare, key=lambda word: (-counts[word], word))
    return KnownWords(
        frozenset(kept[:MOST_WORDS]), len(once) >= ENOUGH and share >= NAMES
    )


def _seen_again(counts: Counter[str]) -> Counter[str]:
    return Counter({word: count for word, count in counts.items() if count > 1})


_WORD = re.compile(r"\w+(?:-\w+)*")
_BEFORE_SENTENCE = re.compile(r"[.!?…:;\"“”„«»‹›(\[¿¡]\s*$|^\W*$")  # noqa: RUF001


class _Word(NamedTuple):
    text: str
    start: int
    end: int
    is_first: bool
    """Whether it begins a sentence, a quotation or what stands in brackets."""
    follows_space: bool
    """Whether there is white space, and nothing else, between the last word and it."""

    @property
    def has_capital(self) -> bool:
        return self.text != self.text.lower()

    @property
    def has_inner_capital(self) -> bool:
        parts = self.text.split("-")
        return any(part[1:] != part[1:].lower() for part in parts)


def _words(text: str) -> Iterator[_Word]:
    end = 0
    for match in _WORD.finditer(text):
        is_first = bool(_BEFORE_SENTENCE.search(text, end, match.start()))
        between = text[end : match.start()]
        if is_first and between.rstrip() == ".":
            is_first = not is_abbreviation(text, end, match.group()[0])
        yield _Word(match.group(), *match.span(), is_first, between.isspace())
        end = match.end()
