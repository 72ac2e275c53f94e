"""Baskets of things that are bought, with what they cost.

    two apples, a loaf and four eggs        5.70

The prices stand nowhere: they are to be learned from the totals. No test basket has a
set of things that a basket of training has.
"""

from __future__ import annotations

from random import Random

from headwise.sample_data.splits import LabelledText, Sizes, Splits, is_held_out, split

PRICES = {
    "apple": 0.6,
    "egg": 0.4,
    "loaf": 2.9,
    "cheese": 4.5,
    "cake": 3.2,
    "tomato": 0.5,
    "melon": 2.4,
    "candle": 1.1,
    "basket": 7.5,
    "towel": 5.8,
    "cup": 3.9,
    "pencil": 0.8,
}
"""Thing -> what one of it costs."""

PLURALS = {"loaf": "loaves", "tomato": "tomatoes"}
NUMBERS = ("a", "two", "three", "four", "five")
MOST_THINGS = 4
"""Different things of a basket, at most."""

SIZES = Sizes(4_000, 200, 400)
ONE_IN = 8
"""One in so many sets of things is for the test."""


def baskets(sizes: Sizes = SIZES, *, seed: int = 1) -> Splits[LabelledText]:
    """Generate baskets; the label is the price of all, with two decimals."""
    return split(
        _basket,
        key=lambda example: example.text,
        for_test=lambda example: is_held_out(*things(example.text), one_in=ONE_IN),
        sizes=sizes,
        seed=seed,
    )


def things(text: str) -> list[str]:
    """Return the different things of a basket, in alphabetical order."""
    return sorted(SINGULARS[word] for word in _words(text) if word in SINGULARS)


def price(text: str) -> float:
    """Return what a basket costs."""
    words = _words(text)
    counts = [NUMBERS.index("a" if word == "an" else word) + 1 for word in words[::2]]
    pairs = zip(counts, words[1::2], strict=True)
    return sum(count * PRICES[SINGULARS[word]] for count, word in pairs)


def _words(text: str) -> list[str]:
    return text.replace(",", "").replace(" and ", " ").split()


def _plural(thing: str) -> str:
    return PLURALS.get(thing, f"{thing}s")


SINGULARS = {each: each for each in PRICES} | {_plural(each): each for each in PRICES}


def _basket(rng: Random, number: int) -> list[LabelledText]:
    parts = []
    for thing in rng.sample(list(PRICES), rng.randint(1, MOST_THINGS)):
        count = rng.randrange(len(NUMBERS))
        if count:
            parts.append(f"{NUMBERS[count]} {_plural(thing)}")
        else:
            parts.append(f"{'an' if thing[0] in 'ae' else 'a'} {thing}")
    text = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    return [LabelledText(text, f"{price(text):.2f}")]
