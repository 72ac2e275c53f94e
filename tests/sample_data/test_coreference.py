"""Pronouns: balanced exactly, so that only the whole sentence decides; by templates."""

import re
from collections import Counter, defaultdict

import pytest
from tests.sample_data.conftest import everything, shares, words

from headwise.sample_data.coreference import REASONS, coreferences
from headwise.sample_data.coreference_relations import RELATIONS
from headwise.sample_data.splits import Sizes

PRONOUN = "it"
PARTS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def corpus():
    return coreferences(Sizes(8_000, 200, 400), seed=1)


def test_the_four_sentences_of_the_introduction(corpus):
    """Each noun is the answer once as the first and once as the second candidate."""
    fours = defaultdict(list)
    for each in everything(corpus):
        if each.relation == "fit into" and each.template[1] == REASONS[0]:
            fours[frozenset(each.candidates)].append((each.answer, each.label))
    assert all(
        Counter(four)[(noun, "first")] == Counter(four)[(noun, "second")]
        for nouns, four in fours.items()
        for noun in nouns
    )


def test_the_candidates_stand_in_the_text_in_their_order_and_the_pronoun_once(corpus):
    for each in everything(corpus):
        found = words(each.text)
        first, second = each.candidates
        assert found.index(first) < found.index(second) < found.index(PRONOUN)
        assert found.count(PRONOUN) == found.count(first) == found.count(second) == 1
        assert each.answer in each.candidates


@pytest.mark.parametrize("part", PARTS)
def test_the_place_of_a_noun_alone_is_at_chance(corpus, part):
    labels = [each.label for each in getattr(corpus, part)]
    assert shares(labels) == {"first": 0.5, "second": 0.5}


@pytest.mark.parametrize("part", PARTS)
def test_every_word_alone_is_at_chance(corpus, part):
    """Exactly: of all sentences with a word, half have the first noun as answer."""
    counts = defaultdict(Counter)
    for each in getattr(corpus, part):
        for word in set(words(each.text)):
            counts[word][each.label] += 1
    for word, count in counts.items():
        assert count["first"] == count["second"], word


@pytest.mark.parametrize("part", PARTS)
def test_a_noun_alone_does_not_say_whether_it_is_the_answer(corpus, part):
    is_answer = defaultdict(Counter)
    for each in getattr(corpus, part):
        for noun in each.candidates:
            is_answer[noun][noun == each.answer] += 1
    assert all(count[True] == count[False] for count in is_answer.values())


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("features", [("template",), ("candidates",), ("adjective",)])
def test_template_nouns_or_adjective_alone_are_at_chance(corpus, part, features):
    counts = defaultdict(Counter)
    for each in getattr(corpus, part):
        counts[tuple(getattr(each, name) for name in features)][each.label] += 1
    assert all(count["first"] == count["second"] for count in counts.values())


def test_adjective_and_relation_decide_together(corpus):
    """So a reader who knows the relations can answer everything."""
    blamed = {
        (relation.name, adjective): nouns
        for relation in RELATIONS
        for adjectives, nouns in (
            (relation.of_one, relation.ones),
            (relation.of_other, relation.others),
        )
        for adjective in adjectives
    }
    assert len(blamed) == sum(len((*r.of_one, *r.of_other)) for r in RELATIONS)
    for each in everything(corpus):
        assert each.answer in blamed[each.relation, each.adjective]


def test_some_adjectives_blame_the_container_and_elsewhere_the_content():
    kinds = defaultdict(set)
    for relation in RELATIONS:
        for adjective in relation.of_one:
            kinds[adjective].add("one")
        for adjective in relation.of_other:
            kinds[adjective].add("other")
    assert sum(len(kind) == 2 for kind in kinds.values()) >= 8


def test_no_template_of_the_test_part_occurs_in_training(corpus):
    train = {each.template for each in (*corpus.train, *corpus.dev)}
    assert not train & {each.template for each in corpus.test}


def test_every_relation_and_clause_and_reason_occurs_in_training_and_test(corpus):
    for part in (corpus.train, corpus.test):
        assert {each.relation for each in part} == {r.name for r in RELATIONS}
        assert {each.template[1] for each in part} == set(REASONS)
    clauses = {c for r in RELATIONS for c in (*r.one_first, *r.other_first)}
    assert {each.template[0] for each in corpus.train} == clauses
    assert len(clauses) == sum(len(r.one_first + r.other_first) for r in RELATIONS)


def test_every_word_of_the_test_part_occurs_in_training(corpus):
    train = {word for each in corpus.train for word in words(each.text)}
    assert {word for each in corpus.test for word in words(each.text)} <= train


def test_no_sentence_occurs_twice_and_every_one_ends(corpus):
    texts = [each.text for each in everything(corpus)]
    assert len(set(texts)) == len(texts)
    assert all(re.fullmatch(r"[A-Z][^{}]+\.", text) for text in texts)


def test_the_same_seed_gives_the_same_sentences():
    sizes = Sizes(40, 4, 4)
    assert coreferences(sizes, seed=1) == coreferences(sizes, seed=1)
    assert coreferences(sizes, seed=1) != coreferences(sizes, seed=2)
