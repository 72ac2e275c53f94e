"""Questions: each function draws one pair, or None if nothing fits."""

from __future__ import annotations

from random import Random

from headwise.demo_corpus.clauses import (
    Clause,
    is_it,
    question,
    random_manner,
    statement,
)
from headwise.demo_corpus.french import Features
from headwise.demo_corpus.lexicon import (
    ADJECTIVES,
    FITTING,
    INTRANSITIVE,
    TRANSITIVE,
)
from headwise.demo_corpus.pairs import Pair, closed
from headwise.demo_corpus.phrases import (
    Phrase,
    random_object,
)
from headwise.demo_corpus.random_phrases import (
    SHE_AND_THEY,
    random_actor,
    random_topic,
    verbs_of,
)


def copular_question(rng: Random) -> Pair | None:
    """Ask "Is the house big?", which French turns around: "La maison est-elle"."""
    subject = random_topic(rng, anyone=SHE_AND_THEY)
    tense = rng.choice(("present", "past"))
    adjective = ADJECTIVES[rng.choice(FITTING[subject.category])]
    return closed("copular question", is_it(subject, adjective, tense), "?")


def yes_no_question(rng: Random) -> Pair | None:
    """Ask "Does the dog like fish?"."""
    verb = rng.choice(TRANSITIVE)
    subject = random_actor(rng, verb)
    manner = random_manner(rng, verb, subject)
    thing = random_object(rng, verb.objects)
    if thing.word == subject.word:
        return None
    return closed("yes-no question", question(subject, verb, manner.tense, thing), "?")


def who_question(rng: Random) -> Pair | None:
    """Ask "Who bought the car?"."""
    verb = rng.choice(TRANSITIVE)
    who = Phrase("who", "qui", Features(), "who", "person")
    manner = random_manner(rng, verb, who, negations=0.0)
    thing = random_object(rng, verb.objects)
    return closed("who question", statement(who, verb, manner, thing), "?")


_ASKED = {
    "where": ("où", verbs_of("sleep work sing dance play swim wait")),
    "when": ("quand", verbs_of("arrive leave work sleep sing dance")),
    "why": ("pourquoi", INTRANSITIVE),
}


def adverb_question(rng: Random) -> Pair | None:
    """Ask "Where is Paul working?"."""
    word = rng.choice(tuple(_ASKED))
    in_french, verbs = _ASKED[word]
    verb = rng.choice(verbs)
    subject = random_actor(rng, verb)
    manner = random_manner(rng, verb, subject)
    asked = _asked(word, in_french, question(subject, verb, manner.tense))
    return closed("adverb question", asked, "?")


_HANDLED = tuple(
    verb for verb in TRANSITIVE if "person" not in verb.objects and not verb.preposition
)


def what_question(rng: Random) -> Pair | None:
    """Ask "What is Paul looking for?"."""
    verb = rng.choice(_HANDLED)
    subject = random_actor(rng, verb)
    manner = random_manner(rng, verb, subject)
    asked = what_is(question(subject, verb, manner.tense))
    return closed("what question", asked, "?")


def what_is(clause: Clause) -> Clause:
    """Ask what it is that somebody does: "what does Paul see"."""
    return _asked("what", "que", clause)


def _asked(word: str, in_french: str, clause: Clause) -> Clause:
    return Clause(
        f"{word} {clause.english}", f"{in_french} {clause.french}", clause.combinations
    )
