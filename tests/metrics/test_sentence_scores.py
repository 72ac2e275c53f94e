"""The scores of all pairs at once are sacreBLEU's, pair by pair."""

import random
from collections import Counter

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import helpers

from headwise.metrics import sentence_scores
from headwise.metrics.bleu_tokenizer import tokenizer_for
from headwise.metrics.sentence_scores import SENTENCE_SCORES, count_matches

WORDS = st.sampled_from(["the", "a", "dog", "dogs", "runs", "run", ".", "the,", "éé"])
TEXT = st.one_of(st.lists(WORDS, max_size=9).map(" ".join), st.text(max_size=9))


def pair_by_pair(name, texts):
    metric = {
        "chrf": sacrebleu.CHRF(),
        "bleu": sacrebleu.BLEU(tokenize=tokenizer_for(texts), effective_order=True),
    }[name]
    return [
        [metric.sentence_score(text, [other]).score for other in texts]
        for text in texts
    ]


@pytest.mark.parametrize("name", SENTENCE_SCORES)
def test_every_score_likes_a_text_best_that_is_the_same(name):
    (same, less), (_, other) = SENTENCE_SCORES[name](
        ["a dog runs fast", "a dog sits here"]
    )

    assert same == other == pytest.approx(100)
    assert less < 100


@pytest.mark.parametrize("name", SENTENCE_SCORES)
@given(texts=st.lists(TEXT, min_size=1, max_size=6))
def test_every_score_is_sacrebleus_to_the_last_bit(name, texts):
    """Texts that are empty, equal, or shorter than an n-gram among them."""
    assert SENTENCE_SCORES[name](texts) == pair_by_pair(name, texts)


@pytest.mark.parametrize("name", SENTENCE_SCORES)
def test_long_texts_are_compared_in_parts(name, monkeypatch):
    monkeypatch.setattr(sentence_scores, "COLUMNS_AT_ONCE", 7)
    chance = random.Random(1)
    texts = [" ".join(chance.choices("abcde", k=40)) for _ in range(5)]

    assert SENTENCE_SCORES[name](texts) == pair_by_pair(name, texts)


def test_matches_are_the_smaller_of_two_counts():
    """a: min(2, 3) = 2 and b: min(1, 0) = 0; c is only in the second."""
    first, second = Counter(a=2, b=1), Counter(a=3, c=4)

    assert count_matches([first, second]).tolist() == [[3, 2], [2, 7]]
    assert count_matches([]).tolist() == []


@pytest.mark.parametrize(("name", "orders"), [("chrf", 1), ("bleu", 4)])
def test_n_grams_of_a_text_are_counted_once(name, orders, monkeypatch):
    """chrF counted those of both texts for each pair: 17 s for 256 of a sentence."""
    counted = []

    def noting(count):
        return lambda *text: counted.append(text) or count(*text)

    for module, function in (
        (helpers, "extract_all_char_ngrams"),  # of all orders at once
        (sentence_scores, "_ngrams"),
    ):
        monkeypatch.setattr(module, function, noting(getattr(module, function)))
    texts = [f"the dog sees {number} cats" for number in range(20)]

    SENTENCE_SCORES[name](texts)

    assert len(counted) == orders * len(texts)
