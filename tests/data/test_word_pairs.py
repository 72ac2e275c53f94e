"""Pairs of words are told from pairs of texts, whatever they are written in."""

import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.word_pairs import is_word, word_pairs
from headwise.demo_corpus import generate

SYLLABLES = ["ka", "lo", "mi", "ru", "se", "ta", "vo", "ni", "pe", "du"]


def words(count, syllables=4):
    drawn = random.Random(3)
    return ["".join(drawn.choices(SYLLABLES, k=syllables)) for _ in range(count)]


def spelled(word):
    return " ".join(word)


def test_words_with_phones_are_words_with_symbols():
    assert word_pairs((each, spelled(each)) for each in words(200)) == "symbols"


def test_words_of_several_syllables_may_have_spaces():
    pairs = [(f"{each[:4]} {each[4:]}", spelled(each)) for each in words(200)]
    assert word_pairs(pairs) == "symbols"


def test_words_with_other_words_are_spelled_on_both_sides():
    assert word_pairs((each, f"{each}s") for each in words(200)) == "characters"


def test_words_with_glosses_are_texts():
    """A vocabulary of characters would have to spell sentences."""
    found = words(200)
    pairs = [(each, f"the {found[-number]} of") for number, each in enumerate(found)]
    assert word_pairs(pairs) is None


def test_sentences_are_texts():
    pairs = [(pair.english, pair.french) for pair in islice(generate(seed=1), 500)]
    assert word_pairs(pairs) is None
    assert word_pairs([("私は学生です。", "我是学生。")] * 50) is None


def test_commands_of_few_words_are_texts():
    """The words on both sides are frequent: each is an entry of a vocabulary."""
    drawn = random.Random(1)
    pairs = [
        (f"{verb} {way}", f"TURN_{way} {verb}")
        for verb, way in (
            (drawn.choice(("walk", "run")), drawn.choice(("left", "right")))
            for _ in range(200)
        )
    ]
    assert word_pairs(pairs) is None


def test_one_pair_in_ten_may_be_something_else():
    pairs = [(each, spelled(each)) for each in words(180)]
    other = [("This is a whole sentence .", "x y")]
    assert word_pairs(pairs + other * 20) == "symbols"
    assert word_pairs(pairs + other * 21) is None


def test_nothing_is_no_word():
    assert word_pairs([]) is None


@pytest.mark.parametrize(
    "text", ["dog", "aujourd’hui", "well-known", "क्षमा", "あい", " x "]
)
def test_a_word(text):
    assert is_word(text)


@pytest.mark.parametrize("text", ["", "  ", "a dog", "Go.", "Stop!", "好，", "(x)"])
def test_no_word(text):
    assert not is_word(text)


@given(st.lists(st.tuples(st.text(), st.text())))
def test_any_text_is_told(pairs):
    assert word_pairs(pairs) in (None, "symbols", "characters")
