"""The dictionary baseline, and the scores of pronouns."""

import pytest
from sacrebleu import corpus_bleu

from headwise.demo_corpus import (
    EXAMPLES,
    ExactMatches,
    PronounCase,
    dictionary_baseline,
    exact_matches,
    pronoun_accuracy,
)
from headwise.demo_corpus.lexicon import NAMES
from headwise.errors import UsageError

HE = PronounCase("animal", "street", "tired", "il")
SHE = PronounCase("street", "animal", "wide", "elle")


def test_words_are_translated_one_by_one():
    assert (
        dictionary_baseline("Is the big house white?") == "Est le grand maison blanc ?"
    )
    assert dictionary_baseline("Marie ate the apple.") == "Marie mangé le pomme."


SAME_IN_BOTH = (
    *("animal", "lion", "village", "restaurant", "garage", "tunnel", "table", "photo"),
    *("piano", "hamster", "princesse", "six", "long", "fragile", "intelligent", "me"),
)


def test_the_dictionary_holds_every_word_but_names(corpus):
    words = {
        word
        for pair in corpus.held_out
        for word in pair.english.rstrip(".?").split()
        if word not in NAMES and word.removesuffix("'s") not in NAMES
    }
    for word in words:
        in_french = dictionary_baseline(word).rstrip(".").lower()
        assert in_french != word.lower() or word.removesuffix("s") in SAME_IN_BOTH


def test_a_dictionary_alone_stays_under_50_bleu(corpus):
    outputs = [dictionary_baseline(pair.english) for pair in corpus.held_out]
    references = [pair.french for pair in corpus.held_out]
    assert corpus_bleu(outputs, [references]).score < 50


def test_a_dictionary_alone_knows_no_pronoun(corpus):
    pairs = [pair for pair in corpus.held_out if pair.pronoun is not None]
    said = [
        dictionary_baseline(pair.english).replace("que il", "qu'il") for pair in pairs
    ]
    assert pronoun_accuracy([pair.pronoun for pair in pairs], said) == 0.5


def test_references_are_all_right(corpus):
    pairs = [pair for pair in corpus.held_out if pair.pronoun is not None]
    cases = [pair.pronoun for pair in pairs]
    assert pronoun_accuracy(cases, [pair.french for pair in pairs]) == 1.0


def test_the_pronoun_of_the_because_clause_counts():
    """One right; one wrong; one that says il elsewhere only; one that says neither."""
    outputs = [
        "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
        "L'animal n'a pas traversé la rue parce qu'il était trop large.",
        "Il n'a pas traversé la rue.",
        "Parce que.",
    ]
    assert pronoun_accuracy([HE, SHE, HE, SHE], outputs) == 0.25


def test_a_translation_for_each_case_is_needed():
    with pytest.raises(UsageError, match="2 pronoun cases came with 1 translations"):
        pronoun_accuracy([HE, SHE], ["Parce qu'il dort."])
    with pytest.raises(UsageError, match="0 pronoun cases"):
        pronoun_accuracy([], [])


def test_one_wrong_ending_is_no_exact_match():
    """Of the two pronoun sentences one is right; the letters lack their agreement."""
    outputs = [pair.french for pair in EXAMPLES[:3]]
    outputs[1] = outputs[1].replace("qu'elle", "qu'il")
    outputs[2] = outputs[2].replace("écrites", "écrits")

    found = exact_matches(EXAMPLES[:3], outputs)

    assert found == {
        "object relative": ExactMatches(0, 1),
        "pronoun": ExactMatches(1, 2),
    }
    assert found["pronoun"].share == 0.5


def test_exact_matches_need_a_translation_for_each_pair():
    with pytest.raises(UsageError, match="2 pairs came with 1 translations"):
        exact_matches(EXAMPLES[:2], ["Oui."])
