"""Sentences whose "it" is the animal or the other thing, as only the meaning tells.

"The animal didn't cross the street because it was too tired" needs *il* (un animal),
"... too wide" needs *elle* (une rue). The sentences come four at a time:

    masculine animal, feminine thing    the animal is to blame     il
    masculine animal, feminine thing    the thing is to blame      elle
    feminine animal, masculine thing    the animal is to blame     elle
    feminine animal, masculine thing    the thing is to blame      il

with the same two adjectives in both halves. So in any collection of whole quartets each
noun, and each adjective, goes with *il* exactly as often as with *elle*: neither alone
says more than a coin.

Elsewhere "it" leaves no choice: there is one noun to stand for, or the other one is a
person. Such sentences (``one_candidate`` here, ``contrast`` among the descriptions) are
not pronoun cases; they show what *il* and *elle* go by before it comes to choosing.
"""

from __future__ import annotations

from random import Random

from headwise.demo_corpus.clauses import Clause, Manner, being, statement
from headwise.demo_corpus.lexicon import (
    ADJECTIVES,
    FRAMES,
    MOODS,
    Adjective,
    Gender,
    Noun,
)
from headwise.demo_corpus.pairs import Pair, PronounCase, closed
from headwise.demo_corpus.phrases import (
    BY_CATEGORY,
    Phrase,
    noun_phrase,
    random_determiner,
    random_subject,
)
from headwise.demo_corpus.random_phrases import pronoun_for, verbs_of

Quartet = tuple[Pair, Pair, Pair, Pair]

_FRONTS = {
    "past": (("yesterday,", "hier,"), ("this morning,", "ce matin,")),
    "present": (("today,", "aujourd'hui,"),),
    "future": (("tomorrow,", "demain,"), ("tonight,", "ce soir,")),
}
_LOOKS = ("big", "small", "beautiful", "black", "white", "brown")
"""Adjectives that can neither repeat nor contradict the reason given."""


_FAILED = verbs_of("sleep run walk play swim leave stay")


def quartet(rng: Random) -> Quartet:
    """Draw four sentences that balance each other."""
    frame = rng.choice(FRAMES)
    mood, fault = rng.choice(MOODS), rng.choice(frame.faults)
    tense = rng.choices(tuple(_FRONTS), (6, 3, 1))[0]
    front = rng.choice(_FRONTS[tense]) if rng.random() < 0.1 else ("", "")
    pairs = []
    genders: tuple[tuple[Gender, Gender], ...] = (("m", "f"), ("f", "m"))
    for animal_gender, thing_gender in genders:
        animal = _phrase(rng, BY_CATEGORY["animal"], animal_gender)
        thing = _phrase(rng, frame.nouns, thing_gender)
        for adjective, antecedent, distractor in (
            (ADJECTIVES[mood], animal, thing),
            (ADJECTIVES[fault], thing, animal),
        ):
            failure = statement(animal, frame.verb, Manner(tense, "not"), thing)
            clause = with_reason(failure, tense, antecedent, adjective)
            clause = Clause(
                f"{front[0]} {clause.english}",
                f"{front[1]} {clause.french}",
                clause.combinations,
            )
            case = PronounCase(
                antecedent.word,
                distractor.word,
                adjective.english,
                "elle" if antecedent.features.gender == "f" else "il",
            )
            pairs.append(closed("pronoun", clause, ".", case))
    first, second, third, fourth = pairs
    return first, second, third, fourth


def one_candidate(rng: Random) -> Pair:
    """Say "The dog didn't sleep because it was too nervous.", with no other noun.

    Or "Marie didn't cross the street because it was too wide.": she would be "she".
    """
    tense = rng.choice(("past", "present"))
    manner = Manner(tense, "not")
    if rng.random() < 0.5:
        animal = random_subject(rng, ("animal",), adjectives=0.0)
        failure = statement(animal, rng.choice(_FAILED), manner)
        clause = with_reason(failure, tense, animal, ADJECTIVES[rng.choice(MOODS)])
    else:
        frame = rng.choice(FRAMES)
        person = random_subject(rng, ("person",), adjectives=0.0)
        noun = rng.choice(frame.nouns)
        thing = noun_phrase(noun, random_determiner(rng, noun))
        failure = statement(person, frame.verb, manner, thing)
        fault = ADJECTIVES[rng.choice(frame.faults)]
        clause = with_reason(failure, tense, thing, fault)
    return closed("one candidate", clause)


def _phrase(rng: Random, nouns: tuple[Noun, ...], gender: Gender) -> Phrase:
    noun = rng.choice([noun for noun in nouns if noun.gender == gender])
    determiner = "the" if rng.random() < 0.5 else random_determiner(rng, noun)
    adjective = None
    if noun.category == "animal":
        adjective = ADJECTIVES[rng.choice(_LOOKS)] if rng.random() < 0.1 else None
    return noun_phrase(noun, determiner, adjective=adjective)


def with_reason(
    failure: Clause, tense: str, antecedent: Phrase, adjective: Adjective
) -> Clause:
    """Add "because it was too tired" to what failed."""
    state_tense = "past" if tense == "past" else "present"
    it = pronoun_for(antecedent)
    reason = being(it, adjective, state_tense, degree=("too", "trop"))
    return Clause(
        f"{failure.english} because {reason.english}",
        f"{failure.french} parce que {reason.french}",
        (*failure.combinations, *reason.combinations),
    )
