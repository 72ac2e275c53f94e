"""English forms: plurals, articles, and verb groups with their contractions."""

from __future__ import annotations

from headwise.demo_corpus.lexicon import Verb

_PLURALS = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "mouse": "mice",
    "goose": "geese",
    "wolf": "wolves",
    "tomato": "tomatoes",
}
_DOUBLED = ("run", "swim", "forget")
_SOUNDS_LIKE_A_CONSONANT = ("useful",)


def finished(words: str, mark: str) -> str:
    """Capitalise and close a sentence."""
    text = " ".join(words.split())
    return text[0].upper() + text[1:] + mark


def plural_of(noun: str) -> str:
    """Return the plural of a noun."""
    if noun in _PLURALS:
        return _PLURALS[noun]
    return _with_s(noun)


def _with_s(word: str) -> str:
    if word.endswith(("s", "sh", "ch", "x")) or word == "go":
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + "s"


def article(next_word: str) -> str:
    """Return "a" or "an"."""
    if next_word.startswith(_SOUNDS_LIKE_A_CONSONANT):
        return "a"
    return "an" if next_word[0] in "aeiou" else "a"


def third_person(verb: str) -> str:
    """Return the third person singular; of "look for", its first word changes."""
    first, _, rest = verb.partition(" ")
    form = "has" if first == "have" else _with_s(first)
    return f"{form} {rest}".strip()


def with_ing(verb: str) -> str:
    """Return the present participle."""
    first, _, rest = verb.partition(" ")
    if first in _DOUBLED:
        first += first[-1]
    elif first.endswith("e") and not first.endswith("ee"):
        first = first[:-1]
    return f"{first}ing {rest}".strip()


_BE = {
    # tense: I, he/she, we/you/they
    "present": ("am", "is", "are"),
    "past": ("was", "was", "were"),
}
_NOT = {
    # every other one takes "n't" as it is
    "am": "am not",
    "can": "can't",
    "will": "won't",
    "must": "must not",
}


def be(tense: str, person: int, plural: bool) -> str:
    """Return the form of "be" in the present or past."""
    i, he, they = _BE[tense]
    if plural or person == 2:
        return they
    return i if person == 1 else he


def negated(auxiliary: str) -> str:
    """Contract an auxiliary with "not"."""
    return _NOT.get(auxiliary, auxiliary + "n't")


def split_verb(verb: Verb, tense: str, person: int, plural: bool) -> tuple[str, str]:
    """Return (auxiliary, rest) as questions and negations need them: "does", "eat"."""
    simple = {"present": "does", "past": "did", "future": "will"}
    if tense in simple:
        auxiliary = simple[tense]
        if auxiliary == "does" and (plural or person != 3):
            auxiliary = "do"
        return auxiliary, verb.english
    form = be("past" if tense == "past progressive" else "present", person, plural)
    if tense == "going":
        return form, f"going to {verb.english}"
    return form, with_ing(verb.english)


def verb_group(
    verb: Verb,
    tense: str,
    person: int,
    plural: bool,
    *,
    negation: str = "",
    adverb: str = "",
) -> str:
    """Return the verb of a statement, "never" and adverbs such as "often" included.

    ``negation`` is "", "not" or "never".
    """
    auxiliary, rest = split_verb(verb, tense, person, plural)
    if negation == "not":
        return f"{negated(auxiliary)} {rest}"
    if auxiliary in ("do", "does", "did"):
        plain = {"do": verb.english, "does": third_person(verb.english)}
        group = plain.get(auxiliary, verb.past)
        return " ".join(word for word in (negation, adverb, group) if word)
    return " ".join(word for word in (auxiliary, negation, adverb, rest) if word)
