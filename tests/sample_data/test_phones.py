"""Words of an invented language: its rules, by hand."""

import pytest
from tests.sample_data.conftest import everything

from headwise.sample_data.phones import phones, spoken
from headwise.sample_data.splits import Sizes


@pytest.mark.parametrize(
    ("word", "sounds"),
    [
        ("cheta", "ʃ e t a"),
        ("cinnu", "s i n u"),
        ("cosa", "k o z a"),
        ("tamike", "t a m iː k"),
        ("pholache", "f o l aː ʃ"),
        ("gatace", "g a t aː s"),
        ("sasse", "s aː s"),
        ("rase", "r aː z"),
    ],
)
def test_the_rules_by_hand(word, sounds):
    assert spoken(word) == sounds


def test_every_word_is_spoken_by_the_rules_and_no_two_are_the_same():
    examples = everything(phones(Sizes(1_500, 100, 200), seed=1))

    assert len({each.text for each in examples}) == len(examples)
    assert all(each.label == spoken(each.text) for each in examples)


def test_the_phones_of_the_test_part_are_all_in_training():
    found = phones(Sizes(1_500, 100, 200), seed=1)
    known = {sound for each in found.train for sound in each.label.split()}

    assert {sound for each in found.test for sound in each.label.split()} <= known
