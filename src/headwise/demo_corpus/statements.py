"""Statements of actions: each function draws one pair, or None if nothing fits."""

from __future__ import annotations

from random import Random

from headwise.demo_corpus.clauses import (
    Clause,
    Manner,
    being,
    random_manner,
    statement,
    with_clitic,
)
from headwise.demo_corpus.french import Features
from headwise.demo_corpus.lexicon import (
    ADJECTIVES,
    FITTING,
    GO,
    INTRANSITIVE,
    MANNER,
    MODALS,
    OFTEN,
    TRANSITIVE,
    WITH_HAVE,
    WITHOUT_DEGREE,
)
from headwise.demo_corpus.pairs import Pair, closed
from headwise.demo_corpus.phrases import (
    random_object,
    random_subject,
)
from headwise.demo_corpus.random_phrases import (
    SEEN,
    pick,
    placed_at,
    pronoun_for,
    random_actor,
    random_topic,
    verbs_of,
    with_time,
)


def transitive(rng: Random) -> Pair | None:
    """Say "Marie didn't open the old box yesterday."."""
    verb = rng.choice(TRANSITIVE)
    subject = random_actor(rng, verb)
    manner = random_manner(rng, verb, subject)
    thing = random_object(rng, verb.objects, negated=bool(manner.negation))
    if thing.word == subject.word:
        return None
    return closed("transitive", with_time(rng, subject, verb, manner, thing))


_DONE_WELL = verbs_of("work sing dance run walk play swim")


def intransitive(rng: Random) -> Pair | None:
    """Say "The boys are playing in the garden." or "He often sings."."""
    verb = rng.choice(INTRANSITIVE)
    subject = random_actor(rng, verb)
    manner = random_manner(rng, verb, subject)
    if verb.english == "leave" or rng.random() < 0.3:
        return closed("intransitive", with_time(rng, subject, verb, manner, None))
    clause = statement(subject, verb, manner)
    compound = manner.tense in ("past", "going")
    if rng.random() < 0.6 and not compound and verb in _DONE_WELL:
        return closed("intransitive", clause.followed_by(*pick(rng, MANNER)))
    return closed("intransitive", placed_at(rng, clause, (subject.word, verb.english)))


def motion(rng: Random) -> Pair | None:
    """Say "The queen went to the market.", whose French must contract."""
    subject = random_actor(rng, GO)
    manner = random_manner(rng, GO, subject)
    place = random_subject(rng, GO.objects, adjectives=0.1)
    return closed("motion", with_time(rng, subject, GO, manner, place))


_DEEDS = tuple(verb for verb in TRANSITIVE if not verb.is_state)


def modal(rng: Random) -> Pair | None:
    """Say "We can't find the key."."""
    verb = rng.choice(_DEEDS)
    subject = random_actor(rng, verb)
    negation = "not" if rng.random() < 0.3 else ""
    manner = Manner(rng.choice(tuple(MODALS)), negation)
    thing = random_object(rng, verb.objects, negated=bool(negation))
    if thing.word == subject.word:
        return None
    return closed("modal", statement(subject, verb, manner, thing))


_CLITICS = {
    "him": ("le", Features()),
    "her": ("la", Features("f")),
    "them": ("les", Features(plural=True)),
    "me": ("me", Features(person=1)),
    "us": ("nous", Features(plural=True, person=1)),
    "you": ("vous", Features(person=2)),
}


def clitic(rng: Random) -> Pair | None:
    """Say "Paul saw her.", where French says "l'a vue"."""
    verb = rng.choice(SEEN)
    subject = random_actor(rng, verb)
    word = rng.choice(tuple(_CLITICS))
    form, features = _CLITICS[word]
    if features.person != 3 and subject.features.person == features.person:
        return None
    manner = random_manner(rng, verb, subject)
    return closed("clitic", with_clitic(subject, verb, manner, (word, form, features)))


def copular(rng: Random) -> Pair | None:
    """Say "The apples were not very good."."""
    subject = random_topic(rng)
    tense = rng.choices(("present", "past", "future"), (5, 4, 1))[0]
    if tense == "future" and subject.features.person != 3:
        return None
    negated = rng.random() < 0.25
    may_have = tense != "future" and subject.features.person == 3
    if subject.category == "person" and may_have and rng.random() < 0.4:
        state = rng.choice(tuple(WITH_HAVE))
        return closed("copular", being(subject, state, tense, negated=negated))
    adjective = ADJECTIVES[rng.choice(FITTING[subject.category])]
    degree = ("", "")
    if rng.random() < 0.35 and adjective.english not in WITHOUT_DEGREE:
        degree = rng.choice((("very", "très"), ("too", "trop")))
    elif rng.random() < 0.15 and not negated and tense != "future":
        degree = pick(rng, OFTEN)
    return closed(
        "copular", being(subject, adjective, tense, negated=negated, degree=degree)
    )


_WILLED = tuple(verb for verb in INTRANSITIVE if verb.english != "fall")


_REASONS = ("tired", "sick", "happy", "sad", "nervous", "shy", "lazy")


def reason(rng: Random) -> Pair | None:
    """Say "Marie didn't sing because she was sick."."""
    verb = rng.choice(_WILLED)
    subject = random_subject(rng, ("person",), adjectives=0.0)
    tense = rng.choice(("present", "past"))
    manner = Manner(tense, "not" if rng.random() < 0.6 else "")
    them = pronoun_for(subject)
    if rng.random() < 0.2:
        state: str = rng.choice(("hungry", "thirsty", "afraid"))
        why = being(them, state, tense)
    else:
        adjective = ADJECTIVES[rng.choice(_REASONS)]
        degree = ("too", "trop") if manner.negation else ("very", "très")
        why = being(them, adjective, tense, degree=degree)
    done = statement(subject, verb, manner)
    return closed(
        "reason",
        Clause(
            f"{done.english} because {why.english}",
            f"{done.french} parce que {why.french}",
            (*done.combinations, *why.combinations),
        ),
    )
