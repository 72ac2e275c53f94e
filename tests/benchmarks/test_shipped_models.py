"""The measures of shipped models that no library has, worked out by hand."""

from itertools import zip_longest
from pathlib import Path

import pytest
from benchmarks.result_file import ROOT

BENCHMARKS = Path(ROOT) / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """Return the script, which finds its neighbours as it does when it is run."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import shipped_models

    return shipped_models


def test_what_both_sides_have_must_come_through_as_often(script):
    """Of three lines one has no number, one keeps both, one loses one of two."""
    pairs = [
        ("I have no car.", "Je n'ai pas 1 voiture."),
        ("He has 2 cats and 2 dogs.", "Il a 2 chats et 2 chiens."),
        ("It is 7 or 8.", "Il est 7 ou 8 heures."),
    ]
    outputs = ["", "Avec 2 chats, 2 chiens.", "Il est 7 heures."]

    found = script.kept(pairs, outputs, script.KEPT["numbers"])

    assert found == {"lines": 2, "percent": 50.0}


def test_the_first_word_of_a_source_is_no_name(script):
    pairs = [("Was Tom here?", "Was Tom hier?"), ("In Paris?", "In Paris?")]

    found = script.kept(pairs, ["Tom?", "In Rom?"], script.KEPT["names"])

    assert found == {"lines": 2, "percent": 50.0}


def test_a_typo_exchanges_two_letters_of_the_longest_word(script):
    assert script.with_typo("The elephant sleeps.") == "The elehpant sleeps."
    assert script.with_typo("No, go!") == "No, go!"


def test_each_sentence_may_have_another_number_of_references(script):
    references = [["Ein Hund rennt dort.", "Da läuft ein Hund."], ["Wo bist du jetzt?"]]
    outputs = ["Da läuft ein Hund.", "Wo bist du jetzt?"]

    found = script.score_all(outputs, references)

    assert found["bleu_all_references"]["value"] == pytest.approx(100)
    assert found["chrf_all_references"]["value"] == pytest.approx(100)
    (first, _) = zip_longest(*references)
    assert script.score(outputs, first)["bleu"]["value"] < 90


@pytest.mark.parametrize(
    ("language", "output", "pronoun"),
    [
        ("fr", "Le chat dort parce qu'il est las.", "il"),
        ("fr", "La rue parce qu’elle est large.", "elle"),
        ("fr", "Il dort, car elle est lasse.", "elle"),
        ("fr", "Il dort parce que c'est tard.", ""),
        ("de", "Die Katze schläft, weil sie müde ist.", "sie"),
        ("de", "Er schläft, denn es ist spät.", "es"),
        ("de", "Er schläft, weil das Bett warm ist.", ""),
    ],
)
def test_the_pronoun_is_the_one_after_because(script, language, output, pronoun):
    assert script.PRONOUN[language](output) == pronoun


def test_the_right_translation_has_the_pronoun_that_agrees(script, corpora):
    probes = script.rows(corpora / "probes" / "pronoun_minimal_pairs.tsv")[1:]
    expected = {
        (row[0], row[1], language, row[2]): row[column]
        for row in probes
        for language, column in (("de", 6), ("fr", 8))
    }
    table = script.rows(BENCHMARKS / "pronoun_translations.tsv")[1:]

    assert {tuple(row[:4]) for row in table} == {*expected}
    for *key, right, wrong in table:
        find = script.PRONOUN[key[2]]
        assert find(right) == expected[tuple(key)]
        assert find(wrong) not in ("", find(right))


def test_everyday_sentences_are_whole_and_none_stands_twice(script):
    header, *table = script.rows(BENCHMARKS / "everyday.tsv")

    assert header == ["english", "french", "german"]
    assert {len(row) for row in table} == {3}
    for column in zip(*table, strict=True):
        assert len({*column}) == len(column) >= 40
