"""Draw distinct examples for training, validation and test."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from headwise.errors import UsageError

T = TypeVar("T")

MOST_MISSES = 20_000
"""Draws in a row without a new example, after which there seems to be none."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Number of examples of each part. Raises ``UsageError`` for one below 0."""

    train: int
    dev: int
    test: int

    def __post_init__(self) -> None:
        for part in ("train", "dev", "test"):
            if getattr(self, part) < 0:
                raise UsageError(f"{part} must be 0 or more, not {getattr(self, part)}")


@dataclass(frozen=True, slots=True)
class Splits(Generic[T]):
    """Distinct examples in three parts; ``dev`` shows what ``train`` shows."""

    train: tuple[T, ...]
    dev: tuple[T, ...]
    test: tuple[T, ...]
    """Each shows a combination that the other parts never do."""


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A line of text, and its class or number."""

    text: str
    label: str


def is_held_out(*words: object, one_in: int) -> bool:
    """Return whether a combination of words is held out for the test: a fixed rule."""
    key = " ".join(map(str, words))
    return zlib.crc32(key.encode()) % one_in == 0


def split(
    draw: Callable[[Random, int], Sequence[T]],
    *,
    key: Callable[[T], Hashable],
    for_test: Callable[[T], bool],
    sizes: Sizes,
    seed: int,
) -> Splits[T]:
    """Draw groups of examples until every part has its size.

    ``draw`` gets a generator and the number of the group, and returns its examples; a
    group is taken if all belong to the part and all have a new ``key``. In a part the
    order is random. Raises ``UsageError`` if there are not as many distinct examples.
    """
    rng = Random(seed)
    seen: set[Hashable] = set()

    def part(name: str, size: int) -> tuple[T, ...]:
        examples: list[T] = []
        groups = misses = 0
        while len(examples) < size:
            group = draw(rng, groups)
            keys = {key(each) for each in group}
            belongs = all(for_test(each) == (name == "test") for each in group)
            if belongs and len(keys) == len(group) and not keys & seen:
                seen.update(keys)
                examples += group
                groups += 1
                misses = 0
            elif (misses := misses + 1) == MOST_MISSES:
                raise UsageError(
                    f"{name} cannot have {size:,} distinct examples: there are about "
                    f"{len(examples):,}; ask for fewer"
                )
        del examples[size:]
        rng.shuffle(examples)
        return tuple(examples)

    train, dev = part("train", sizes.train), part("dev", sizes.dev)
    return Splits(train, dev, part("test", sizes.test))
