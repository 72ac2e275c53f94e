"""Noise in source texts: what each change does, by hand."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.source_noise import (
    CASES,
    TYPOS,
    Change,
    NoiseSettings,
    changed_pair,
    drop_final_punctuation,
    make_typos,
    title_case,
)
from headwise.errors import SettingsError
from headwise.text.normalization import Symbols

NO_SYMBOLS = Symbols(())


def changed(source, target=None, *, seed=1, symbols=NO_SYMBOLS, **change):
    return changed_pair(source, target, Change(**change), seed=seed, symbols=symbols)


def test_capitals_are_those_of_both_sides():
    found = changed("Don't go to Zürich!", "Geh nicht nach Zürich!", case="upper")

    assert found == ("DON'T GO TO ZÜRICH!", "GEH NICHT NACH ZÜRICH!")


@pytest.mark.parametrize(
    ("case", "source"),
    [
        ("title", "Don't Go To «Zürich»!"),
        ("lower", "don't go to «zürich»!"),
    ],
)
def test_other_cases_are_those_of_the_source_alone(case, source):
    found = changed("Don't go to «Zürich»!", "Geh nicht!", case=case)

    assert found == (source, "Geh nicht!")


def test_title_case_keeps_spaces_and_what_follows_the_first_letter():
    assert title_case("the  cat's McDonald") == "The  Cat's McDonald"


def test_symbols_of_the_tokenizer_stay_as_they_are():
    symbols = Symbols((">>fr<<",))
    found = changed(">>fr<< go on", "va", case="upper", symbols=symbols)

    assert found == (">>fr<< GO ON", "VA")
    spared = {make_typos(">>fr<<", random.Random(seed), symbols) for seed in range(20)}
    assert spared == {">>fr<<"}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("A dog.", "A dog"),
        ("A dog ?!", "A dog"),
        ("一只狗。", "一只狗"),
        ("A dog", "A dog"),
        ("A dog.)", "A dog.)"),
        ("...", "..."),
        ("", ""),
    ],
)
def test_final_punctuation_is_what_ends_a_sentence(text, left):
    assert drop_final_punctuation(text) == left


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ("A dog.", "Ein Hund.", ("A dog", "Ein Hund")),
        ("A dog.", "Ein Hund", ("A dog", "Ein Hund")),
        ("A dog", "Ein Hund.", ("A dog", "Ein Hund.")),
        ("A dog.", None, ("A dog", None)),
    ],
)
def test_a_target_loses_its_full_stop_where_its_source_does(source, target, found):
    assert changed(source, target, drops_punctuation=True) == found


def test_each_typo_by_hand():
    """At the second and third letters of a word, with an x to put in."""
    found = [typo("word", 1, 2, "x") for typo in TYPOS]

    assert found == ["wrod", "wod", "worrd", "woxd"]


@given(st.lists(st.text("abcdefg'.", min_size=1), max_size=25), st.integers(0, 99))
def test_one_word_in_ten_has_a_typo_and_keeps_its_first_letter(words, seed):
    text = " ".join(words)
    after = make_typos(text, random.Random(seed), NO_SYMBOLS).split(" ")

    before = text.split(" ")
    assert len(after) == len(before)
    different = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(different) <= -(-len(before) // 10)
    for one, other in different:
        letters = [each for each in one if each.isalpha()]
        assert len(letters) >= 3
        assert next(each for each in other if each.isalpha()) == letters[0]
        assert {*other} <= {*text}


def test_typos_depend_on_the_seed_alone():
    text = "several young people are standing outside near many bushes"
    found = [changed(text, has_typos=True, seed=seed)[0] for seed in range(50)]

    assert found == [changed(text, has_typos=True, seed=seed)[0] for seed in range(50)]
    assert len({*found}) > 40
    assert all(each != text for each in found[:1])


def test_only_the_random_numbers_are_used_that_every_python_shares(monkeypatch):
    """``Random.random`` is the method that Python promises to keep as it is."""

    class Only(random.Random):
        def getrandbits(self, bits):
            raise AssertionError("not the same in every version")

    make_typos("several words with letters", Only(3), NO_SYMBOLS)


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in (*CASES.values(), "typos") for value in (-0.1, 1.1)]
    + [("final_punctuation", float("nan"))],
)
def test_a_probability_out_of_range_is_named(name, value):
    with pytest.raises(SettingsError, match=f"{name} must be from 0 to 1, not"):
        NoiseSettings(**{name: value})


def test_cases_exclude_one_another():
    with pytest.raises(SettingsError, match=r"their sum must be at most 1, not 1\.1"):
        NoiseSettings(upper_case=0.5, lower_case=0.6)
    assert NoiseSettings(upper_case=0.1, title_case=0.2, lower_case=0.7).is_active


def test_nothing_is_changed_unless_it_is_asked_for():
    assert not NoiseSettings().is_active
    assert not replace(NoiseSettings(), change_target=False).is_active
