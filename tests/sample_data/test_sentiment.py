"""Reviews: as many of each label, no word alone says which, and pairs are held out."""

import re
from collections import Counter

import pytest
from tests.sample_data.conftest import everything, shares, words

from headwise.sample_data.sentiment import TOPICS, reviews
from headwise.sample_data.splits import Sizes, is_held_out


@pytest.fixture(scope="module")
def corpus():
    return reviews(seed=1)


GOOD = {
    adjective
    for topic in TOPICS
    for kinds in topic.aspects.values()
    for adjective in kinds[0]
} | {"great", "excellent", "wonderful", "nice", "perfect"}
BAD = {
    adjective
    for topic in TOPICS
    for kinds in topic.aspects.values()
    for adjective in kinds[1]
} | {"terrible", "awful", "disappointing", "bad", "horrible"}


def polarity(clause):
    """Judge a clause by its adjective and its negation."""
    found = [a for a in sorted(GOOD | BAD, key=len, reverse=True) if a in clause]
    good = found[0] in GOOD
    return good != ("not " in clause or "n't " in clause)


def judge(text):
    """Judge a review by its main clauses alone."""
    verdicts = set()
    for sentence in text.split(". "):
        main = re.sub(r"^(Although|Even though) .*?, ", "", sentence)
        main = re.sub(r", (although|even though) .*", "", main)
        verdicts |= {
            polarity(clause)
            for clause in main.split(" and ")
            if re.match(r"(T|t)he .* was", clause)
        }
    return verdicts


def test_every_label_is_that_of_the_main_clauses(corpus):
    for review in everything(corpus):
        assert judge(review.text) == {review.label == "positive"}, review.text


def test_half_of_each_part_is_positive(corpus):
    for part in (corpus.train, corpus.dev, corpus.test):
        assert shares(review.label for review in part)["positive"] == 0.5


def test_no_adjective_alone_says_the_label(corpus):
    """A negation or a concession turns each of them often enough."""
    with_word, positive = Counter(), Counter()
    for review in corpus.train:
        for word in {a.split()[-1] for a in GOOD | BAD} & set(words(review.text)):
            with_word[word] += 1
            positive[word] += review.label == "positive"
    for word, count in with_word.items():
        assert 0.15 < positive[word] / count < 0.85, word


def test_every_word_of_the_test_part_occurs_in_training(corpus):
    train = {word for review in corpus.train for word in words(review.text)}
    assert {word for review in corpus.test for word in words(review.text)} <= train


def test_every_test_review_has_a_pair_that_training_never_has(corpus):
    pairs = {
        (aspect, adjective)
        for topic in TOPICS
        for aspect in topic.aspects
        for adjective in GOOD | BAD
        if is_held_out(aspect, adjective, one_in=8)
    }

    def shown(text):
        clauses = re.split(r"\. |, | and ", text)
        return {
            (aspect, adjective)
            for aspect, adjective in pairs
            for clause in clauses
            if re.search(rf"he {aspect} was.* {adjective}\b", clause)
        }

    assert all(shown(review.text) for review in corpus.test)
    assert not any(shown(review.text) for review in corpus.train)


def test_the_same_seed_gives_the_same_reviews():
    sizes = Sizes(30, 5, 5)
    assert reviews(sizes, seed=1) == reviews(sizes, seed=1)
    assert reviews(sizes, seed=1) != reviews(sizes, seed=2)
