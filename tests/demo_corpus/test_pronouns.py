"""The pronoun sentences: *il* or *elle* must follow from meaning, and nothing less."""

from collections import Counter
from random import Random

import pytest

from headwise.demo_corpus.lexicon import FRAMES, MOODS, NOUNS
from headwise.demo_corpus.pronouns import quartet

GENDER = {noun.english: noun.gender for noun in NOUNS}


def cases(pairs):
    return [pair for pair in pairs if pair.pronoun is not None]


def test_a_quartet_worked_by_hand():
    """The first two differ in the adjective alone, and so in the pronoun."""
    rng = Random(0)
    for _ in range(300):
        first, second, third, fourth = quartet(rng)
        expected = [pair.pronoun.expected for pair in (first, second, third, fourth)]
        assert expected == ["il", "elle", "elle", "il"]
        reason, other = first.english.split()[-1], second.english.split()[-1]
        assert first.english.replace(reason, other) == second.english
        assert third.english.replace(reason, other) == fourth.english
        assert first.pronoun.antecedent == second.pronoun.distractor
        assert first.pronoun.distractor == second.pronoun.antecedent


def test_the_pronoun_and_the_adjective_agree_with_the_antecedent():
    rng = Random(1)
    for pair in (pair for _ in range(200) for pair in quartet(rng)):
        case = pair.pronoun
        gender = GENDER[case.antecedent]
        assert GENDER[case.distractor] != gender
        assert case.expected == ("elle" if gender == "f" else "il")
        assert f"parce qu'{case.expected} " in pair.french
        assert pair.french.count("parce qu'") == 1


def test_moods_are_about_animals_and_faults_are_not():
    animals = {noun.english for noun in NOUNS if noun.category == "animal"}
    rng = Random(2)
    for pair in (pair for _ in range(200) for pair in quartet(rng)):
        is_mood = pair.pronoun.adjective in MOODS
        assert is_mood == (pair.pronoun.antecedent in animals)
    for frame in FRAMES:
        assert not set(frame.faults) & set(MOODS)


def clues(pair):
    """Name each single word that might give the pronoun away."""
    animal, verb, other = next(c for c in pair.combinations if len(c) == 3)
    return {
        "animal": animal,
        "verb": verb,
        "other noun": other,
        "adjective": pair.pronoun.adjective,
    }


@pytest.mark.parametrize("clue", ["animal", "verb", "other noun", "adjective"])
@pytest.mark.parametrize("part", ["train", "dev", "held_out"])
def test_one_word_alone_says_no_more_than_a_coin(corpus, part, clue):
    """The best guess from one clue is right exactly half the time, in each part."""
    pronoun_pairs = cases(getattr(corpus, part))
    counts: dict[str, Counter[str]] = {}
    for pair in pronoun_pairs:
        counter = counts.setdefault(clues(pair)[clue], Counter())
        counter[pair.pronoun.expected] += 1
    best = sum(max(counter.values()) for counter in counts.values())
    assert best * 2 == len(pronoun_pairs)


def test_each_noun_is_antecedent_as_often_as_distractor(corpus):
    antecedents = Counter(p.pronoun.antecedent for p in cases(corpus.train))
    distractors = Counter(p.pronoun.distractor for p in cases(corpus.train))
    assert antecedents == distractors


def test_they_are_a_fifth_of_each_part(corpus):
    assert len(cases(corpus.train)) == len(corpus.train) / 5
    assert len(cases(corpus.held_out)) == len(corpus.held_out) / 5


def test_elsewhere_it_leaves_no_choice(corpus):
    """Outside the quartets "it" has one noun to stand for, persons being he or she."""
    things = {noun.english for noun in NOUNS if noun.category != "person"}
    others = [pair for pair in corpus.train if pair.pronoun is None]
    for pair in (pair for pair in others if " it " in pair.english):
        assert pair.kind in ("contrast", "one candidate")
        named = {word for combination in pair.combinations for word in combination}
        assert len(named & things) == 1
