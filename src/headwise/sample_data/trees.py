"""Sentences with constituency trees, in which one noun decides where a phrase belongs.

    the girl saw (the boy with the hat)             with the hat is part of the object
    the girl (saw the boy with the telescope)       she saw by means of it

Each verb has its means, and each person something to wear or to hold. So the words up
to "with" leave both trees possible. No test sentence has a pair of verb and last noun
that training has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from headwise.sample_data.splits import Sizes, Splits, is_held_out, split

SIZES = Sizes(4_000, 200, 400)
ONE_IN = 6
"""One in so many pairs of verb and last noun is for the test."""

DETERMINERS = ("the", "a", "this", "every")
ADJECTIVES = ("young", "old", "tall", "clever", "quiet", "happy")
PEOPLE = ("girl", "boy", "farmer", "doctor", "teacher", "child", "baker", "guest")
VERBS = ("saw", "watched", "noticed", "found", "followed", "photographed")
MEANS = ("telescope", "camera", "drone", "microscope", "scanner", "binocular")
WORN = ("hat", "scarf", "beard", "coat", "umbrella", "necklace")
ALONE = ("slept", "laughed", "waited", "sang", "left")
SAID = ("said", "thought", "knew", "believed")
PLACES = ("garden", "village", "market", "kitchen")
DEEPEST = 2
"""Most clauses that a sentence has inside another."""


@dataclass(frozen=True, slots=True)
class TreeExample:
    """A sentence with its tree, in the brackets of the Penn Treebank."""

    tree: str

    pairs: tuple[tuple[str, str], ...]
    """Verbs, and the last nouns that decide about them."""

    @property
    def is_held_out(self) -> bool:
        """Whether one of the pairs is for the test."""
        return any(is_held_out(*pair, one_in=ONE_IN) for pair in self.pairs)


def tree_examples(sizes: Sizes = SIZES, *, seed: int = 1) -> Splits[TreeExample]:
    """Generate sentences with their trees."""
    return split(
        _sentence,
        key=lambda example: example.tree,
        for_test=lambda example: example.is_held_out,
        sizes=sizes,
        seed=seed,
    )


def _sentence(rng: Random, number: int) -> list[TreeExample]:
    pairs: list[tuple[str, str]] = []
    clause = _clause(rng, rng.choice((0, 0, 0, 1, DEEPEST)), pairs)
    inside = clause.removeprefix("(S ").removesuffix(")")
    return [TreeExample(f"(S {inside} (. .))", tuple(pairs))]


def _clause(rng: Random, depth: int, pairs: list[tuple[str, str]]) -> str:
    """Return a clause with so many others inside, and add its pairs to ``pairs``."""
    subject = _noun_phrase(rng, PEOPLE)
    if rng.random() < 0.2:
        place = _phrase("PP", "(IN from)", _noun_phrase(rng, PLACES))
        subject = _phrase("NP", subject, place)
    if depth:
        inner = _phrase("SBAR", "(IN that)", _clause(rng, depth - 1, pairs))
        return _phrase("S", subject, _phrase("VP", f"(VBD {rng.choice(SAID)})", inner))
    if rng.random() < 0.2:
        return _phrase("S", subject, _phrase("VP", f"(VBD {rng.choice(ALONE)})"))
    verb, thing = rng.choice(VERBS), _noun_phrase(rng, PEOPLE)
    noun = rng.choice(MEANS + WORN)
    pairs.append((verb, noun))
    with_it = _phrase("PP", "(IN with)", _noun_phrase(rng, (noun,)))
    if noun in MEANS:
        return _phrase("S", subject, _phrase("VP", f"(VBD {verb})", thing, with_it))
    thing = _phrase("NP", thing, with_it)
    return _phrase("S", subject, _phrase("VP", f"(VBD {verb})", thing))


def _noun_phrase(rng: Random, nouns: Sequence[str]) -> str:
    adjectives = [f"(JJ {rng.choice(ADJECTIVES)})"] if rng.random() < 0.3 else []
    determiner = f"(DT {rng.choice(DETERMINERS)})"
    return _phrase("NP", determiner, *adjectives, f"(NN {rng.choice(nouns)})")


def _phrase(label: str, *children: str) -> str:
    return f"({label} {' '.join(children)})"
