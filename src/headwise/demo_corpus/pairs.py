"""A pair of the generated corpus: a sentence, its translation, and what it tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headwise.demo_corpus import english, french
from headwise.demo_corpus.clauses import Clause
from headwise.demo_corpus.phrases import Combination


@dataclass(frozen=True, slots=True)
class PronounCase:
    """A sentence whose "it" must become *il* or *elle*."""

    antecedent: str
    """The English noun that "it" stands for."""

    distractor: str
    """The other noun, whose French gender is the other one."""

    adjective: str
    """The English adjective, which alone tells the two apart."""

    expected: Literal["il", "elle"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A finished English sentence and its one French translation."""

    english: str
    french: str
    kind: str
    combinations: tuple[Combination, ...]
    pronoun: PronounCase | None = None


def closed(
    kind: str, clause: Clause, mark: str = ".", pronoun: PronounCase | None = None
) -> Pair:
    """Turn a clause into a pair: capitals, elision, contraction, final mark."""
    return Pair(
        english.finished(clause.english, mark),
        french.finished(clause.french, mark),
        kind,
        clause.combinations,
        pronoun,
    )
