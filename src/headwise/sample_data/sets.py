"""Lines whose order carries no information: the most frequent symbol, and a sum.

A model without positional encoding can learn both. No line of the test part has the
same symbols as one of training in another order.
"""

from __future__ import annotations

from random import Random

from headwise.sample_data.splits import LabelledText, Sizes, Splits, is_held_out, split

SYMBOLS = "abcdefgh"
FEWEST, MOST = 5, 16
"""Symbols of a line."""

FEWEST_NUMBERS, MOST_NUMBERS = 2, 5
LARGEST_NUMBER = 9

SIZES = Sizes(20_000, 500, 1_000)
SIZES_OF_SUMS = Sizes(2_000, 100, 200)
ONE_IN = 8
"""One in so many multisets is for the test."""


def most_frequent(sizes: Sizes = SIZES, *, seed: int = 1) -> Splits[LabelledText]:
    """Generate lines of symbols; the label is the one that occurs most often.

    It is always a single one, and every symbol is the label equally often.
    """
    return split(_line, key=_multiset, for_test=_for_test, sizes=sizes, seed=seed)


def sums(sizes: Sizes = SIZES_OF_SUMS, *, seed: int = 1) -> Splits[LabelledText]:
    """Generate lines of numbers; the label is their sum."""
    return split(_sum, key=_multiset, for_test=_for_test, sizes=sizes, seed=seed)


def _line(rng: Random, number: int) -> list[LabelledText]:
    label = SYMBOLS[number % len(SYMBOLS)]
    length = rng.randint(FEWEST, MOST)
    while True:
        line = [rng.choice(SYMBOLS) for _ in range(length)]
        counts = sorted((line.count(symbol), symbol) for symbol in set(line))
        if len(counts) > 1 and counts[-1][0] > counts[-2][0]:
            break
    # Renaming symbols keeps the counts as random lines have them.
    swapped = str.maketrans(counts[-1][1] + label, label + counts[-1][1])
    return [LabelledText(" ".join(line).translate(swapped), label)]


def _sum(rng: Random, number: int) -> list[LabelledText]:
    count = rng.randint(FEWEST_NUMBERS, MOST_NUMBERS)
    numbers = [rng.randint(0, LARGEST_NUMBER) for _ in range(count)]
    return [LabelledText(" ".join(map(str, numbers)), str(sum(numbers)))]


def _multiset(example: LabelledText) -> str:
    return " ".join(sorted(example.text.split()))


def _for_test(example: LabelledText) -> bool:
    return is_held_out(_multiset(example), one_in=ONE_IN)
