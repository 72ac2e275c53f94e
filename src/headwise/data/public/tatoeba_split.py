"""Split the sentence pairs of Tatoeba into training, validation and test text.

Translations of one sentence, and sentences that share one, never stand on two sides of
the split: pairs that share a key, on either side, form a component, and components are
held out whole. Which ones is decided by SHA-256 of their text, not by a random number
generator, so anybody gets the same split.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

SALT = "tatoeba-split-1:"
"""Put before texts that are hashed: another one would give another split."""

HELD_OUT = 2000
"""English sentences of the validation set, and of the test set."""

MAX_COMPONENT = 10
"""Pairs of the largest components that are held out."""

DROPPED = "\u200b\u00ad\ufeff"
"""Zero-width space, soft hyphen and byte order mark, which are left out."""

Pair = tuple[str, str]


class _KeyTable(dict[int, str | None]):
    """A table for ``str.translate``: punctuation, symbols and controls are dropped."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        dropped = unicodedata.category(character)[0] in "PSC"
        self[code] = None if dropped else character
        return self[code]


class _SpaceTable(dict[int, str | None]):
    """A table for ``str.translate``: every Unicode space is a plain one."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        is_space = unicodedata.category(character) == "Zs"
        self[code] = " " if is_space else character
        if character in DROPPED:
            self[code] = None
        return self[code]


_KEY_TABLE = _KeyTable()
_SPACE_TABLE = _SpaceTable()


def clean(text: str) -> str:
    """Return ``text`` in NFC, with single plain spaces."""
    plain = unicodedata.normalize("NFC", text).translate(_SPACE_TABLE)
    return " ".join(part for part in plain.split(" ") if part)


def key(text: str) -> str:
    """Return what sentences are compared by: letters and digits in lower case."""
    folded = unicodedata.normalize("NFKC", text).lower().translate(_KEY_TABLE)
    return " ".join(folded.split())


def read_pairs(text: str) -> list[Pair]:
    """Return the distinct cleaned pairs of an Anki file of tabs, in order."""
    lines = (line.rstrip("\r") for line in text.split("\n"))
    cells = (line.split("\t") for line in lines if line)
    return list(dict.fromkeys((clean(row[0]), clean(row[1])) for row in cells))


@dataclass(frozen=True, slots=True)
class Split:
    """The split: held-out sentences have all their translations."""

    train: list[Pair]
    dev: list[tuple[str, ...]]
    """English, then its translations in the order of the file."""
    test: list[tuple[str, ...]]
    set_aside: list[Pair]
    """Pairs that belong to nothing, as other test sets have them."""


def split(
    pairs: Sequence[Pair],
    set_aside: Collection[int],
    *,
    held_out: int = HELD_OUT,
    max_component: int = MAX_COMPONENT,
) -> Split:
    """Split ``pairs``; those whose indices are in ``set_aside`` are in no part of it.

    Of the components without such a pair, and with at most ``max_component`` pairs, by
    SHA-256 of their smallest English key, the first make up the test set, with
    ``held_out`` English sentences or a few more, the next the validation set. Raises
    ``ValueError`` if there are too few.
    """
    keys = [(key(english), key(other)) for english, other in pairs]
    may_be_held_out = [
        component
        for component in components(keys)
        if len(component) <= max_component and set_aside_free(component, set_aside)
    ]
    may_be_held_out.sort(key=lambda each: _hash(min(keys[index][0] for index in each)))
    remaining = iter(may_be_held_out)
    test, dev = (_take(remaining, keys, held_out) for _ in range(2))
    gone = {index for part in (test, dev) for each in part for index in each}
    train = [
        pair
        for index, pair in enumerate(pairs)
        if index not in gone and index not in set_aside
    ]
    return Split(
        train=sorted(train, key=lambda pair: _hash("\t".join(pair))),
        dev=_with_references(dev, pairs, keys),
        test=_with_references(test, pairs, keys),
        set_aside=[pairs[index] for index in sorted(set_aside)],
    )


def set_aside_free(component: Iterable[int], set_aside: Collection[int]) -> bool:
    """Return whether no pair of a component is set aside."""
    return not any(index in set_aside for index in component)


def components(keys: Sequence[Pair]) -> list[list[int]]:
    """Return the indices of pairs that are connected by equal keys on one side."""
    parents: dict[tuple[int, str], tuple[int, str]] = {}

    def root(node: tuple[int, str]) -> tuple[int, str]:
        parents.setdefault(node, node)
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    for english, other in keys:
        parents[root((0, english))] = root((1, other))
    found: dict[tuple[int, str], list[int]] = {}
    for index, (english, _) in enumerate(keys):
        found.setdefault(root((0, english)), []).append(index)
    return list(found.values())


def _take(
    ordered: Iterator[list[int]], keys: Sequence[Pair], count: int
) -> list[list[int]]:
    """Take components until they have ``count`` English keys; group pairs by key."""
    groups: dict[str, list[int]] = {}
    while len(groups) < count:
        component = next(ordered, None)
        if component is None:
            raise ValueError(
                f"only {len(groups):,} English sentences can be held out, not {count:,}"
            )
        for index in component:
            groups.setdefault(keys[index][0], []).append(index)
    return list(groups.values())


def _with_references(
    groups: Iterable[list[int]], pairs: Sequence[Pair], keys: Sequence[Pair]
) -> list[tuple[str, ...]]:
    ordered = sorted(groups, key=lambda group: _hash(keys[group[0]][0]))
    return [
        (pairs[group[0]][0], *(pairs[index][1] for index in group)) for group in ordered
    ]


def _hash(text: str) -> str:
    return hashlib.sha256(f"{SALT}{text}".encode()).hexdigest()
