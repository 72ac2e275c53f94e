"""Split off a validation set: a function of the seed and the source text.

Every source text is hashed, and those with the smallest hashes are held out. So the
split does not depend on the order of lines or on duplicates, a held-out source is never
in the training set, and only the smallest hashes are kept in memory.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwise.errors import DataError

MIN_PAIRS, MAX_PAIRS = 50, 2000
"""Bounds on the number of held-out pairs by default."""

SOURCES_LEFT = 10
"""At most one in so many different sources is held out by default."""

GIVE_DEV = "give a validation set (--dev or --dev-file, or data.dev in a recipe)"


def key(seed: int, source: str) -> int:
    """Return a 64-bit hash of seed and text; differences in white space are ignored."""
    text = f"{seed} {' '.join(source.split())}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


class SmallestKeys:
    """The ``most`` smallest different keys added so far, in bounded memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._negated: list[int] = []
        self._kept: set[int] = set()

    def add(self, key: int) -> None:
        """Add ``key``; keep it if it is new and among the smallest."""
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
    """The set of source texts that are held out."""

    seed: int
    highest_key: int = -1
    """Texts with this key or a smaller one are held out."""

    def __contains__(self, source: str) -> bool:
        return self.highest_key >= 0 and key(self.seed, source) <= self.highest_key


def choose_held_out(
    keys: Iterable[int], *, seed: int, num_pairs: int, share: int, wanted: int | None
) -> HeldOutSources:
    """Return the sources to hold out.

    ``keys`` are the smallest keys of all sources, at least ``keys_needed`` of them.
    ``wanted`` is the number of sources; by default it is one in ``share`` of the pairs,
    within the bounds above. Raises ``DataError`` if nothing would be left for training.
    """
    ordered = sorted(keys)
    if wanted is None:
        wanted = min(MAX_PAIRS, max(MIN_PAIRS, num_pairs // share))
        wanted = max(1, min(wanted, len(ordered) // SOURCES_LEFT))
    if len(ordered) == 1:
        raise DataError(
            "no training data would be left, as all source texts are the same one, "
            f"which validation needs; {GIVE_DEV}, or more text"
        )
    if len(ordered) <= wanted:
        raise DataError(
            f"no training data would be left with {wanted:,} of {len(ordered):,} "
            "different source texts held out for validation; hold out fewer "
            f"(data.dev_pairs), or {GIVE_DEV}"
        )
    return HeldOutSources(seed, ordered[wanted - 1])


def keys_needed(wanted: int | None) -> int:
    """Return how many keys ``choose_held_out`` needs."""
    return MAX_PAIRS * SOURCES_LEFT if wanted is None else wanted + 1
