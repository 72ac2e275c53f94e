"""Example sentences to translate, with the reference translation of the grammar.

They are in no part of the corpus, so none was seen in training.
"""

from __future__ import annotations

from headwise.demo_corpus.clauses import (
    Clause,
    Manner,
    at_place,
    being,
    is_it,
    question,
    statement,
    that_is_done,
)
from headwise.demo_corpus.descriptions import there_is
from headwise.demo_corpus.lexicon import ADJECTIVES, NOUNS, Verb
from headwise.demo_corpus.pairs import Pair, closed
from headwise.demo_corpus.phrases import Phrase, name, noun_phrase
from headwise.demo_corpus.pronouns import with_reason
from headwise.demo_corpus.questions import what_is
from headwise.demo_corpus.random_phrases import verbs_of


def _noun(word: str, determiner: str = "the", *, plural: bool = False) -> Phrase:
    (noun,) = (each for each in NOUNS if each.english == word)
    return noun_phrase(noun, determiner, plural=plural)


def _verb(word: str) -> Verb:
    (verb,) = verbs_of(word)
    return verb


def _too(adjective: str, *, animal_is_to_blame: bool) -> Pair:
    animal, street = _noun("animal"), _noun("street")
    failure = statement(animal, _verb("cross"), Manner("past", "not"), street)
    it = animal if animal_is_to_blame else street
    return closed("pronoun", with_reason(failure, "past", it, ADJECTIVES[adjective]))


def _letters() -> Pair:
    letters, alice = _noun("letter", plural=True), name("Alice")
    written = that_is_done(letters, alice, _verb("write"), Manner("past"))
    return closed("object relative", being(written, ADJECTIVES["long"], "past"))


def _no_bird() -> Pair:
    (bird,) = (each for each in NOUNS if each.english == "bird")
    beautiful = ADJECTIVES["beautiful"]
    none = noun_phrase(bird, "a", adjective=beautiful, negated=True)
    clause = there_is(none, "present", negated=True)
    return closed("existence", clause.followed_by(*at_place("in", _noun("garden"))))


def _school() -> Clause:
    return is_it(_noun("school", "this"), ADJECTIVES["old"], "present")


def _lawyer() -> Clause:
    return what_is(question(_noun("lawyer"), _verb("buy"), "going"))


EXAMPLES: tuple[Pair, ...] = (
    _too("tired", animal_is_to_blame=True),
    _too("wide", animal_is_to_blame=False),
    _letters(),
    closed("copular question", _school(), "?"),
    closed("what question", _lawyer(), "?"),
    _no_bird(),
)
"""The first two differ in one word, and so in *il*."""
