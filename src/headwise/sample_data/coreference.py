"""Sentences whose "it" stands for one of two nouns; one adjective decides for which.

    The lamp did not fit into the drawer because it was too big.      lamp
    The lamp did not fit into the drawer because it was too narrow.   drawer
    The drawer had no room for the lamp because it was too big.       lamp
    The drawer had no room for the lamp because it was too narrow.    drawer

Such four sentences occur together. So each noun, each adjective and each template alone
leaves both answers equally likely, and so does the order of the nouns: only the meaning
of the whole decides. The test part has templates that training never has; every word
and every relation is in training in other templates.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from headwise.sample_data.coreference_relations import RELATIONS, Relation
from headwise.sample_data.splits import Sizes, Splits, split

REASONS = (
    "{clause} because it was too {adjective}.",
    "{clause}, because it was far too {adjective}.",
    "{clause}. It was simply too {adjective}.",
    "{clause}, as it was too {adjective}.",
    "{clause}, for it was much too {adjective}.",
    "{clause}: it was just too {adjective}.",
)
"""How the reason follows; with a clause of a relation, this is a template."""

HELD_OUT = 3
"""One in so many templates is for the test."""

SIZES = Sizes(12_000, 400, 800)


@dataclass(frozen=True, slots=True)
class Coreference:
    """A sentence with one pronoun, and the two nouns that it could stand for."""

    text: str
    candidates: tuple[str, str]
    """In the order in which the text has them."""

    answer: str
    """The candidate that the pronoun stands for."""

    relation: str
    adjective: str
    template: tuple[str, str]
    """Clause and reason, before the words were put in."""

    is_held_out: bool
    """Whether the template is for the test."""

    @property
    def label(self) -> Literal["first", "second"]:
        """Which of the candidates the answer is."""
        return "first" if self.answer == self.candidates[0] else "second"


def coreferences(sizes: Sizes = SIZES, *, seed: int = 1) -> Splits[Coreference]:
    """Generate sentences in fours that balance each other (sizes divisible by 4)."""
    return split(
        _four,
        key=lambda example: example.text,
        for_test=lambda example: example.is_held_out,
        sizes=sizes,
        seed=seed,
    )


def _four(rng: Random, number: int) -> list[Coreference]:
    """Draw two templates that name the nouns in opposite order, and two adjectives."""
    relation = RELATIONS[number % len(RELATIONS)]
    one, other = rng.choice(relation.ones), rng.choice(relation.others)
    decisive = {one: rng.choice(relation.of_one), other: rng.choice(relation.of_other)}
    reason = rng.randrange(len(REASONS))
    return [
        _example(relation, clauses, place, reason, (one, other), answer, adjective)
        for clauses, place in (
            (relation.one_first, rng.randrange(len(relation.one_first))),
            (relation.other_first, rng.randrange(len(relation.other_first))),
        )
        for answer, adjective in decisive.items()
    ]


def _example(
    relation: Relation,
    clauses: tuple[str, ...],
    place: int,
    reason: int,
    nouns: tuple[str, str],
    answer: str,
    adjective: str,
) -> Coreference:
    one, other = nouns
    clause = clauses[place].format(one=one, other=other)
    text = REASONS[reason].format(clause=clause, adjective=adjective)
    in_order = (one, other) if clauses is relation.one_first else (other, one)
    return Coreference(
        text[0].upper() + text[1:],
        in_order,
        answer,
        relation.name,
        adjective,
        (clauses[place], REASONS[reason]),
        (place + reason) % HELD_OUT == 0,
    )
