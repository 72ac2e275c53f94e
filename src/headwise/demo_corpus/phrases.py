"""Noun phrases in both languages at once: "my old friends" beside "mes vieux amis"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from headwise.demo_corpus import english, french
from headwise.demo_corpus.french import Features
from headwise.demo_corpus.lexicon import (
    ADJECTIVES,
    FITTING,
    NAMES,
    NOUNS,
    NUMBERS,
    UNOWNED,
    Adjective,
    Noun,
)

Combination = tuple[str, ...]
"""English words whose combination is either in training or held out, never both."""

BY_CATEGORY: dict[str, tuple[Noun, ...]] = {
    category: tuple(noun for noun in NOUNS if noun.category == category)
    for category in FITTING
}
POSSESSIVES = ("my", "your", "his", "her", "our", "their")
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    category: tuple(
        word for word in fitting for _ in range(4 if ADJECTIVES[word].before else 1)
    )
    for category, fitting in FITTING.items()
}
"""Adjectives beside a noun: "big" and "old" more often than "slippery"."""

_NAMES = tuple(NAMES)
_NUMBERS = tuple(NUMBERS)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase, as a subject or an object, with its agreement features."""

    english: str
    french: str
    features: Features
    word: str
    """The English word that stands for the phrase in combinations."""

    category: str
    combinations: tuple[Combination, ...] = ()


_PRONOUNS = {
    "I": ("je", Features(person=1)),
    "you": ("vous", Features(person=2)),
    "he": ("il", Features()),
    "she": ("elle", Features(gender="f")),
    "we": ("nous", Features(person=1, plural=True)),
    "they": ("ils", Features(plural=True)),
}


def pronoun(word: str) -> Phrase:
    """Return a personal pronoun as a subject; "they" is always "ils" here."""
    form, features = _PRONOUNS[word]
    return Phrase(word, form, features, word, "person")


def name(word: str) -> Phrase:
    """Return a proper name."""
    return Phrase(word, word, Features(NAMES[word]), word, "person")


def two_names(first: str, second: str) -> Phrase:
    """Join two names; one man among them makes the pair masculine."""
    feminine = NAMES[first] == NAMES[second] == "f"
    features = Features("f" if feminine else "m", plural=True)
    return Phrase(
        f"{first} and {second}", f"{first} et {second}", features, first, "person"
    )


def noun_phrase(
    noun: Noun,
    determiner: str,
    *,
    plural: bool = False,
    adjective: Adjective | None = None,
    owner: Phrase | None = None,
    negated: bool = False,
) -> Phrase:
    """Build a noun phrase.

    ``determiner`` is an English one, a number, or "" for mass nouns ("water", "de
    l'eau"). With an ``owner`` it is not used: "Paul's dog", "le chien de Paul". An
    indefinite object of a negated verb becomes "de": "pas de livres".
    """
    features = Features(noun.gender, plural)
    bare = french.with_adjective(
        french.plural_of(noun.french) if plural else noun.french, adjective, features
    )
    quality = (adjective.english,) if adjective else ()
    english_noun = english.plural_of(noun.english) if plural else noun.english
    words = " ".join((*quality, english_noun))
    if owner is not None:
        in_english = f"{owner.english}'s {words}"
        in_french = f"{french.determined('the', bare, features)} de {owner.french}"
    else:
        in_english = _determined(determiner, words, negated=negated)
        in_french = _determined_in_french(
            determiner, bare, features, adjective, negated=negated
        )
    return Phrase(
        in_english,
        in_french,
        features,
        noun.english,
        noun.category,
        tuple((noun.english, word) for word in quality)
        + (owner.combinations if owner else ()),
    )


def _determined(determiner: str, words: str, *, negated: bool) -> str:
    if determiner == "a":
        determiner = english.article(words)
    elif determiner == "some" and negated:
        determiner = "any"
    return f"{determiner} {words}".strip()


def _determined_in_french(
    determiner: str,
    bare: str,
    features: Features,
    adjective: Adjective | None,
    *,
    negated: bool,
) -> str:
    if determiner in NUMBERS:
        return f"{NUMBERS[determiner]} {bare}"
    if determiner in ("a", "some", ""):
        # "pas de livres", and "de vieux livres" where the adjective comes first
        before = adjective is not None and adjective.before and features.plural
        if negated or before:
            return f"de {bare}"
    key = {"": "some", "these": "this"}.get(determiner, determiner)
    return french.determined(key, bare, features)


def random_adjective(rng: Random, category: str, share: float) -> Adjective | None:
    """Draw a fitting adjective in ``share`` of the cases."""
    if rng.random() >= share:
        return None
    return ADJECTIVES[rng.choice(_ATTRIBUTES[category])]


def random_determiner(rng: Random, noun: Noun, *, plural: bool = False) -> str:
    """Draw a definite determiner, mostly "the"."""
    draw = rng.random()
    if draw < 0.6:
        return "the"
    if draw < 0.8 and noun.english not in UNOWNED:
        return rng.choice(POSSESSIVES)
    return "these" if plural else "this"


def random_subject(
    rng: Random, categories: Sequence[str], *, adjectives: float = 0.15
) -> Phrase:
    """Draw a definite phrase, or a name where persons may act."""
    if "person" in categories and rng.random() < 0.3:
        if rng.random() < 0.15:
            first = rng.choice(_NAMES)
            second = rng.choice([word for word in _NAMES if word != first])
            return two_names(first, second)
        return name(rng.choice(_NAMES))
    category = rng.choice(categories)
    noun = rng.choice(BY_CATEGORY[category])
    plural = not noun.is_mass and rng.random() < 0.3
    adjective = random_adjective(rng, category, adjectives)
    if rng.random() < 0.1 and noun.english not in UNOWNED:
        owner = name(rng.choice(_NAMES))
        return noun_phrase(noun, "the", plural=plural, adjective=adjective, owner=owner)
    determiner = random_determiner(rng, noun, plural=plural)
    return noun_phrase(noun, determiner, plural=plural, adjective=adjective)


def random_object(
    rng: Random,
    categories: Sequence[str],
    *,
    negated: bool = False,
    adjectives: float = 0.15,
) -> Phrase:
    """Draw a phrase that may also be indefinite: "a cake", "six cakes", "bread"."""
    if rng.random() < 0.5:
        return random_subject(rng, categories, adjectives=adjectives)
    category = rng.choice(categories)
    noun = rng.choice(BY_CATEGORY[category])
    adjective = random_adjective(rng, category, 0.4 if negated else adjectives)
    plural = False
    if noun.is_mass:
        determiner, adjective = "", None
    elif negated and category == "person":
        determiner = "the"  # "pas d'homme" would be stiff
    elif rng.random() < 0.6:
        determiner = "a"
    else:
        plural = True
        determiner = "some" if rng.random() < 0.6 else rng.choice(_NUMBERS)
    return noun_phrase(
        noun, determiner, plural=plural, adjective=adjective, negated=negated
    )
