"""Clauses in both languages at once: statements, questions, and "be"."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

from headwise.demo_corpus import english, french
from headwise.demo_corpus.french import Features
from headwise.demo_corpus.lexicon import (
    MODALS,
    PREPOSITIONS,
    WITH_HAVE,
    Adjective,
    Verb,
)
from headwise.demo_corpus.phrases import Combination, Phrase


@dataclass(frozen=True, slots=True)
class Clause:
    """An English clause, its French translation, and the word combinations in it."""

    english: str
    french: str
    combinations: tuple[Combination, ...] = ()

    def followed_by(self, in_english: str, in_french: str) -> Clause:
        """Append words to both languages."""
        return Clause(
            f"{self.english} {in_english}",
            f"{self.french} {in_french}",
            self.combinations,
        )


@dataclass(frozen=True, slots=True)
class Manner:
    """The English tense of a verb, its negation, and its adverb."""

    tense: str
    negation: str = ""
    adverb: tuple[str, str] = ("", "")


_NEGATIONS = {"": "", "not": "pas", "never": "jamais"}


def french_tense(verb: Verb, tense: str) -> str:
    """Return the French tense for an English one, as ``french.verb_group`` names it."""
    if tense == "past":
        return "imparfait" if verb.is_state else "passé composé"
    return {
        "present": "present",
        "progressive": "present",
        "past progressive": "imparfait",
        "future": "futur",
        "going": "aller",
        **MODALS,
    }[tense]


_TENSES = {
    "present": 6,
    "progressive": 4,
    "past": 7,
    "past progressive": 3,
    "future": 3,
    "going": 3,
}
_STATE_TENSES = {"present": 5, "past": 3}


def random_manner(
    rng: Random, verb: Verb, subject: Phrase, *, negations: float = 0.25
) -> Manner:
    """Draw a tense that verb and subject allow, and perhaps a negation."""
    tense = rng.choice(_possible_tenses(verb, subject.features))
    negation = ""
    if rng.random() < negations:
        may_be_never = tense in ("present", "past", "future")
        negation = "never" if may_be_never and rng.random() < 0.2 else "not"
    return Manner(tense, negation)


@cache
def _possible_tenses(verb: Verb, subject: Features) -> tuple[str, ...]:
    """List the tenses, the common ones several times.

    Left out are forms that would hardly recur: "riront", "traversaient", "dormons".
    """
    singular = subject.person == 3 and not subject.plural
    tenses = dict(_STATE_TENSES if verb.is_state else _TENSES)
    left_out = set()
    if verb.is_instant:
        left_out |= {"progressive", "past progressive"}
    if verb.english == "go":
        left_out |= {"going"}
    if not singular:
        left_out |= {"past progressive", "future"}
    if subject.person != 3 and not _is_like_il(verb, subject):
        left_out |= {"present", "progressive"}
    if verb.english == verb.past and not singular:
        left_out |= {"present"}  # "they read" may be either
    return tuple(
        tense
        for tense, weight in tenses.items()
        if tense not in left_out
        for _ in range(weight)
    )


def _is_like_il(verb: Verb, features: Features) -> bool:
    """Return whether "je" takes the form of "il": "je mange", "il mange"."""
    if features.person != 1 or features.plural:
        return False
    il = Features(features.gender)
    return french.finite(verb.french, "present", features) == french.finite(
        verb.french, "present", il
    )


def statement(
    subject: Phrase,
    verb: Verb,
    manner: Manner,
    complement: Phrase | None = None,
) -> Clause:
    """Make a statement of subject, verb and, if any, object."""
    features = subject.features
    in_english = _english_group(verb, manner, features)
    in_french = french.verb_group(
        verb.french,
        french_tense(verb, manner.tense),
        features,
        negation=_NEGATIONS[manner.negation],
        adverb=manner.adverb[1],
    )
    clause = Clause(
        f"{subject.english} {in_english}",
        f"{subject.french} {in_french}",
        (*subject.combinations, met(subject, verb, complement)),
    )
    return clause if complement is None else _completed(clause, verb, complement)


def question(
    subject: Phrase,
    verb: Verb,
    tense: str,
    complement: Phrase | None = None,
) -> Clause:
    """Make a question: "does Paul eat the apple", "est-ce que Paul mange la pomme"."""
    features = subject.features
    auxiliary, rest = english.split_verb(verb, tense, features.person, features.plural)
    in_french = french.verb_group(verb.french, french_tense(verb, tense), features)
    clause = Clause(
        f"{auxiliary} {subject.english} {rest}",
        f"est-ce que {subject.french} {in_french}",
        (*subject.combinations, met(subject, verb, complement)),
    )
    return clause if complement is None else _completed(clause, verb, complement)


def met(subject: Phrase, verb: Verb, complement: Phrase | None) -> Combination:
    """Return the combination of subject, verb and complement."""
    words = (subject.word, verb.english)
    return words if complement is None else (*words, complement.word)


def with_clitic(
    subject: Phrase, verb: Verb, manner: Manner, clitic: tuple[str, str, Features]
) -> Clause:
    """Make a statement with an object pronoun, before the verb in French."""
    in_english, in_french, features = clitic
    group = french.verb_group(
        verb.french,
        french_tense(verb, manner.tense),
        subject.features,
        negation=_NEGATIONS[manner.negation],
        clitic=in_french,
        object_before=features,
    )
    return Clause(
        f"{subject.english} {_english_group(verb, manner, subject.features)} "
        f"{in_english}",
        f"{subject.french} {group}",
        (*subject.combinations, (subject.word, verb.english, in_english)),
    )


def who_does(head: Phrase, verb: Verb, manner: Manner, complement: Phrase) -> Phrase:
    """Extend ``head`` by a relative clause of which it is the subject."""
    relative = "who" if head.category == "person" else "that"
    empty = Phrase(relative, "qui", head.features, head.word, head.category)
    clause = statement(empty, verb, manner, complement)
    return _extended(head, clause)


def that_is_done(head: Phrase, subject: Phrase, verb: Verb, manner: Manner) -> Phrase:
    """Extend ``head`` by a relative clause of which it is the object.

    The participle agrees with it: "la lettre que Paul a écrite".
    """
    in_french = french.verb_group(
        verb.french,
        french_tense(verb, manner.tense),
        subject.features,
        negation=_NEGATIONS[manner.negation],
        object_before=head.features,
    )
    clause = Clause(
        f"that {subject.english} {_english_group(verb, manner, subject.features)}",
        f"que {subject.french} {in_french}",
        (*subject.combinations, met(subject, verb, head)),
    )
    return _extended(head, clause)


def being(
    subject: Phrase,
    adjective: Adjective | str,
    tense: str,
    *,
    negated: bool = False,
    degree: tuple[str, str] = ("", ""),
) -> Clause:
    """State a quality with "be"; a plain string is a key of ``WITH_HAVE``.

    ``tense`` is present, past or future; ``degree`` such as ("very", "très").
    """
    features = subject.features
    verb, quality, word = _quality(adjective, features)
    auxiliary, rest = _be(tense, features)
    if negated:
        auxiliary = english.negated(auxiliary)
    group = french.verb_group(
        verb, _BE_TENSES[tense], features, negation="pas" if negated else ""
    )
    return Clause(
        f"{subject.english} {auxiliary} {rest} {degree[0]} {word}",
        f"{subject.french} {group} {degree[1]} {quality}",
        (*subject.combinations, (subject.word, word)),
    )


def is_it(subject: Phrase, adjective: Adjective, tense: str) -> Clause:
    """Make a question with "be", by inversion: "la maison est-elle grande"."""
    features = subject.features
    _, quality, word = _quality(adjective, features)
    auxiliary, rest = _be(tense, features)
    verb = french.finite("être", _BE_TENSES[tense], features)
    if subject.french in ("il", "elle", "ils", "vous", "nous"):
        start, pronoun = "", subject.french
    else:
        start = subject.french
        pronoun = "elle" if features.gender == "f" else "il"
        pronoun += "s" if features.plural else ""
    link = "-t-" if verb.endswith("a") else "-"
    return Clause(
        f"{auxiliary} {subject.english} {rest} {word}",
        f"{start} {verb}{link}{pronoun} {quality}",
        (*subject.combinations, (subject.word, word)),
    )


def at_place(preposition: str, place: Phrase) -> tuple[str, str]:
    """Render "near the museum" in both languages."""
    return (
        f"{preposition} {place.english}",
        f"{PREPOSITIONS[preposition]} {place.french}",
    )


_BE_TENSES = {"present": "present", "past": "imparfait", "future": "futur"}


def _be(tense: str, features: Features) -> tuple[str, str]:
    if tense == "future":
        return "will", "be"
    return english.be(tense, features.person, features.plural), ""


def _quality(adjective: Adjective | str, features: Features) -> tuple[str, str, str]:
    """Return the French verb, the French adjective and the English one."""
    if isinstance(adjective, str):
        return "avoir", WITH_HAVE[adjective], adjective
    return "être", french.agreeing(adjective.french, features), adjective.english


def _english_group(verb: Verb, manner: Manner, features: Features) -> str:
    if manner.tense in MODALS:
        return _english_modal(verb, manner, features)
    return english.verb_group(
        verb,
        manner.tense,
        features.person,
        features.plural,
        negation=manner.negation,
        adverb=manner.adverb[0],
    )


def _english_modal(verb: Verb, manner: Manner, features: Features) -> str:
    if manner.tense == "want to":
        third = features.person == 3 and not features.plural
        if manner.negation:
            group = f"{'does' if third else 'do'}n't want to"
        else:
            group = "wants to" if third else "want to"
    else:
        group = manner.tense
        if manner.negation:
            group = english.negated(group)
    return f"{group} {verb.english}"


def _completed(clause: Clause, verb: Verb, complement: Phrase) -> Clause:
    to = "to " if verb.english == "go" else ""
    clause = clause.followed_by(
        to + complement.english, f"{verb.preposition} {complement.french}"
    )
    combinations = (*clause.combinations, *complement.combinations)
    return Clause(clause.english, clause.french, combinations)


def _extended(head: Phrase, clause: Clause) -> Phrase:
    return Phrase(
        f"{head.english} {clause.english}",
        f"{head.french} {clause.french}",
        head.features,
        head.word,
        head.category,
        (*head.combinations, *clause.combinations),
    )
