"""Random subjects, places, times and qualities, shared by kinds of sentences."""

from __future__ import annotations

from random import Random

from headwise.demo_corpus.clauses import (
    Clause,
    Manner,
    at_place,
    being,
    statement,
)
from headwise.demo_corpus.lexicon import (
    ADJECTIVES,
    FITTING,
    INSIDE,
    INTRANSITIVE,
    OFTEN,
    ON_TOP,
    TRANSITIVE,
    WHEN,
    Verb,
)
from headwise.demo_corpus.phrases import (
    BY_CATEGORY,
    Phrase,
    noun_phrase,
    pronoun,
    random_subject,
)

BEINGS = ("person", "animal")
PLACES = ("building", "venue", "ground")
THINGS = ("thing", "tool", "clothing", "vehicle", "text", "food", "opening")
EVERYTHING = (*BEINGS, *PLACES, *THINGS, "food", "height", "height", "drink")
"""What one may describe; the repeats make rare categories less rare."""

SHE_AND_THEY = ("he", "she", "they")
ANYONE = ("I", "you", "he", "she", "we", "they")


def verbs_of(words: str) -> tuple[Verb, ...]:
    """Look up verbs by their English words."""
    wanted = words.split()
    return tuple(v for v in (*TRANSITIVE, *INTRANSITIVE) if v.english in wanted)


SEEN = verbs_of("see find follow help know")
"""Few, as each brings four forms of its participle: "vu, vue, vus, vues"."""


def random_actor(rng: Random, verb: Verb) -> Phrase:
    """Draw somebody who may do what ``verb`` says: a pronoun, a name or a noun."""
    if rng.random() < 0.25:
        return pronoun(rng.choice(SHE_AND_THEY if verb.is_state else ANYONE))
    return random_subject(rng, verb.subjects)


def random_topic(rng: Random, anyone: tuple[str, ...] = ANYONE) -> Phrase:
    """Draw somebody or something to be described; ``anyone`` may be no pronoun."""
    if anyone and rng.random() < 0.15:
        return pronoun(rng.choice(anyone))
    return random_subject(rng, EVERYTHING, adjectives=0.0)


def random_head(
    rng: Random, categories: tuple[str, ...], *, plurals: float = 0.25
) -> Phrase:
    """Draw "the boy" or "the boys", to be told apart by a relative clause."""
    noun = rng.choice(BY_CATEGORY[rng.choice(categories)])
    plural = not noun.is_mass and rng.random() < plurals
    return noun_phrase(noun, "the", plural=plural)


def pronoun_for(phrase: Phrase) -> Phrase:
    """Return he, she, it or they for a phrase, in French as its gender asks."""
    features = phrase.features
    in_french = "elle" if features.gender == "f" else "il"
    if features.plural:
        in_english, in_french = "they", in_french + "s"
    elif phrase.category == "person":
        in_english = "she" if features.gender == "f" else "he"
    else:
        in_english = "it"
    return Phrase(in_english, in_french, features, phrase.word, phrase.category)


def pick(rng: Random, words: dict[str, str]) -> tuple[str, str]:
    """Draw an entry of a table: English, French."""
    word = rng.choice(tuple(words))
    return word, words[word]


def with_time(
    rng: Random, subject: Phrase, verb: Verb, manner: Manner, thing: Phrase | None
) -> Clause:
    """Make a statement, sometimes with "often" or a time at its end."""
    draw = rng.random()
    if manner.tense == "present" and not manner.negation and draw < 0.3:
        often = pick(rng, OFTEN)
        return statement(subject, verb, Manner("present", adverb=often), thing)
    clause = statement(subject, verb, manner, thing)
    if draw > 0.8 and not verb.is_state and manner.negation != "never":
        return clause.followed_by(*pick(rng, WHEN[manner.tense]))
    return clause


def placed_at(rng: Random, clause: Clause, who: tuple[str, ...]) -> Clause:
    """Append a place; with ``who`` it is one more combination."""
    place = random_subject(rng, PLACES, adjectives=0.0)
    around = ["behind", "in front of", "near"]
    inside = ["in"] * 4 if place.word in INSIDE else []
    on_top = ["on"] * 4 if place.word in ON_TOP else []
    preposition = rng.choice(around + inside + on_top)
    placed = clause.followed_by(*at_place(preposition, place))
    combinations = (*clause.combinations, *place.combinations, (*who, place.word))
    return Clause(placed.english, placed.french, combinations)


def judged(rng: Random, whole: Phrase) -> Clause:
    """Make a statement of what something is or was like."""
    adjective = ADJECTIVES[rng.choice(FITTING[whole.category])]
    return being(whole, adjective, rng.choice(("present", "past")))
