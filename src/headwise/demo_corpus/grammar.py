"""The grammar: all kinds of sentences, with their weights.

It is far larger than any corpus drawn from it: transitive statements alone number more
than a thousand million (a test multiplies this out from the tables).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from headwise.demo_corpus.descriptions import (
    comparison,
    contrast,
    existence,
    object_relative,
    possession,
    presentation,
    seen_relative,
    subject_relative,
)
from headwise.demo_corpus.pairs import Pair
from headwise.demo_corpus.pronouns import one_candidate
from headwise.demo_corpus.questions import (
    adverb_question,
    copular_question,
    what_question,
    who_question,
    yes_no_question,
)
from headwise.demo_corpus.statements import (
    clitic,
    copular,
    intransitive,
    modal,
    motion,
    reason,
    transitive,
)

Kind = Callable[[Random], Pair | None]

KINDS: dict[Kind, int] = {
    transitive: 18,
    intransitive: 10,
    motion: 4,
    modal: 6,
    clitic: 5,
    copular: 12,
    copular_question: 5,
    yes_no_question: 6,
    who_question: 2,
    adverb_question: 3,
    what_question: 2,
    subject_relative: 4,
    object_relative: 7,
    seen_relative: 2,
    possession: 4,
    presentation: 4,
    existence: 8,
    comparison: 5,
    contrast: 5,
    reason: 4,
    one_candidate: 8,
}
"""Each kind of sentence with its weight; the pronoun quartets stand apart."""

_DRAWN = tuple(kind for kind, weight in KINDS.items() for _ in range(weight))


def plain_pair(rng: Random) -> Pair:
    """Draw a pair of any kind but the pronoun quartets."""
    while True:
        pair = rng.choice(_DRAWN)(rng)
        if pair is not None:
            return pair
