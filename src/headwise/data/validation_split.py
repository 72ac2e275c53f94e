"""Which pairs are held out for validation: a function of seed and source text.

Every source text has a key, and those with the smallest keys are held out. So the
choice depends neither on the order of the lines nor on how many copies a text has, a
source that is held out never stays in train, and only the smallest keys are kept.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwise.errors import DataError

SHARE = 50
"""One of so many pairs is held out, unless a number is given."""

FEWEST, MOST = 50, 2000
"""Bounds on the pairs held out, unless a number is given."""

SOURCES_LEFT = 10
"""At most one of so many different sources is held out, unless a number is given."""


def key(seed: int, source: str) -> int:
    """Return a number of 64 bits that looks random; white space makes no difference."""
    text = f"{seed} {' '.join(source.split())}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


class SmallestKeys:
    """The smallest of all the different keys that were added, in bounded memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._negated: list[int] = []
        self._kept: set[int] = set()

    def add(self, key: int) -> None:
        """Keep ``key`` if it is new and among the smallest."""
        if key in self._kept:
            return
        if len(self._negated) < self._most:
            heapq.heappush(self._negated, -key)
        elif key < -self._negated[0]:
            self._kept.remove(-heapq.heappushpop(self._negated, -key))
        else:
            return
        self._kept.add(key)

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._kept))


@dataclass(frozen=True, slots=True)
class HeldOutSources:
    """The source texts that are kept from train."""

    seed: int
    highest_key: int = -1
    """No text has this key or a smaller one, unless it is held out."""

    def __contains__(self, source: str) -> bool:
        return self.highest_key >= 0 and key(self.seed, source) <= self.highest_key


def choose_held_out(
    keys: Iterable[int], *, seed: int, num_pairs: int, wanted: int | None
) -> HeldOutSources:
    """Choose from ``keys``, the smallest of all sources, how many are held out.

    ``keys`` holds all of them or at least ``keys_needed``. Without ``wanted``, the
    number follows from ``num_pairs``, and most sources stay in train.
    """
    ordered = sorted(keys)
    if wanted is None:
        share = min(MOST, max(FEWEST, num_pairs // SHARE))
        wanted = max(1, min(share, len(ordered) // SOURCES_LEFT))
    if len(ordered) <= wanted:
        raise DataError(
            f"nothing is left to learn from with {wanted:,} of {len(ordered):,} "
            "different source texts held out for validation; hold out fewer "
            "(data.dev_pairs), or name a file for it (data.dev)"
        )
    return HeldOutSources(seed, ordered[wanted - 1])


def keys_needed(wanted: int | None) -> int:
    """Return how many keys ``choose_held_out`` needs."""
    return MOST * SOURCES_LEFT if wanted is None else wanted + 1
