import json

import pytest

from headwise.errors import DataError, ModelError
from headwise.text.vocabulary import SPECIALS, UNKNOWN, Vocabulary


def test_the_place_of_a_piece_is_its_id():
    vocabulary = Vocabulary([*SPECIALS, "b", "a"])

    assert [vocabulary.id(piece) for piece in ("<pad>", "b", "a")] == [0, 4, 5]
    assert vocabulary.pieces[5] == "a"
    assert len(vocabulary) == 6


def test_an_absent_piece_is_unknown():
    assert Vocabulary(SPECIALS).id("x") == UNKNOWN


def test_the_most_frequent_come_first_and_ties_go_by_code_point():
    counts = {"z": 2, "b": 1, "é": 1, "a": 1, "m": 3}

    vocabulary = Vocabulary.of_most_frequent(counts, size=9, symbols=("<x>",))

    assert vocabulary.pieces == (*SPECIALS, "<x>", "m", "z", "a", "b")


def test_text_that_spells_a_special_symbol_does_not_hold_it_twice():
    vocabulary = Vocabulary.of_most_frequent({"<s>": 9, "a": 1}, size=10)
    assert vocabulary.pieces == (*SPECIALS, "a")


def test_no_text_is_a_data_error():
    with pytest.raises(DataError, match="text is empty"):
        Vocabulary.of_most_frequent({}, size=10)


def test_a_saved_vocabulary_is_opened_again(tmp_path):
    vocabulary = Vocabulary([*SPECIALS, "▁été", '"', "\u2028"])
    vocabulary.save(tmp_path / "vocabulary.json")
    assert Vocabulary.open(tmp_path / "vocabulary.json") == vocabulary


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "{}",
        "[1, 2]",
        "[]",
        json.dumps([*SPECIALS, "a", "a"]),
        json.dumps(["a", *SPECIALS]),
        "[" * 100_000,
    ],
)
def test_a_broken_file_is_a_model_error(tmp_path, content):
    path = tmp_path / "vocabulary.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=r"vocabulary\.json"):
        Vocabulary.open(path)


def test_a_file_without_the_users_symbols_is_a_model_error(tmp_path):
    Vocabulary(SPECIALS).save(tmp_path / "v.json")
    with pytest.raises(ModelError, match="lacks the symbols >>fr<<"):
        Vocabulary.open(tmp_path / "v.json", (">>fr<<",))
