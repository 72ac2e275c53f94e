"""English forms, each as an English speaker would write it."""

import pytest

from headwise.demo_corpus.english import (
    article,
    plural_of,
    split_verb,
    third_person,
    verb_group,
    with_ing,
)
from headwise.demo_corpus.lexicon import TRANSITIVE

BY_NAME = {verb.english: verb for verb in TRANSITIVE}


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("dog", "dogs"),
        ("church", "churches"),
        ("box", "boxes"),
        ("glass", "glasses"),
        ("boy", "boys"),
        ("library", "libraries"),
        ("key", "keys"),
        ("mouse", "mice"),
        ("goose", "geese"),
        ("wolf", "wolves"),
        ("child", "children"),
        ("tomato", "tomatoes"),
        ("photo", "photos"),
        ("piano", "pianos"),
    ],
)
def test_plurals(singular, plural):
    assert plural_of(singular) == plural


def test_a_becomes_an_before_a_vowel_sound():
    words = ["apple", "umbrella", "useful pen", "old hat", "hotel", "dog"]
    assert [article(word) for word in words] == ["an", "an", "a", "an", "a", "a"]


@pytest.mark.parametrize(
    ("verb", "third", "ing"),
    [
        ("eat", "eats", "eating"),
        ("carry", "carries", "carrying"),
        ("buy", "buys", "buying"),
        ("watch", "watches", "watching"),
        ("go", "goes", "going"),
        ("have", "has", "having"),
        ("write", "writes", "writing"),
        ("swim", "swims", "swimming"),
        ("forget", "forgets", "forgetting"),
        ("visit", "visits", "visiting"),
        ("open", "opens", "opening"),
        ("see", "sees", "seeing"),
        ("look for", "looks for", "looking for"),
    ],
)
def test_verb_forms(verb, third, ing):
    assert (third_person(verb), with_ing(verb)) == (third, ing)


@pytest.mark.parametrize(
    ("expected", "tense", "negation"),
    [
        ("eats", "present", ""),
        ("doesn't eat", "present", "not"),
        ("never eats", "present", "never"),
        ("is eating", "progressive", ""),
        ("isn't eating", "progressive", "not"),
        ("ate", "past", ""),
        ("didn't eat", "past", "not"),
        ("never ate", "past", "never"),
        ("was eating", "past progressive", ""),
        ("will eat", "future", ""),
        ("won't eat", "future", "not"),
        ("will never eat", "future", "never"),
        ("is going to eat", "going", ""),
    ],
)
def test_a_verb_group_contracts_with_not(expected, tense, negation):
    assert verb_group(BY_NAME["eat"], tense, 3, False, negation=negation) == expected


def test_the_verb_follows_the_person():
    read = BY_NAME["read"]
    assert verb_group(read, "present", 1, False, negation="not") == "don't read"
    assert verb_group(read, "progressive", 1, False) == "am reading"
    assert verb_group(read, "past progressive", 3, True) == "were reading"
    assert verb_group(read, "present", 3, True) == "read"


def test_a_question_splits_the_verb():
    assert split_verb(BY_NAME["look for"], "present", 3, True) == ("do", "look for")
    assert split_verb(BY_NAME["draw"], "progressive", 2, False) == ("are", "drawing")
