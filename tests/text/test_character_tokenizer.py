import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.errors import DataError
from headwise.text.character_tokenizer import CharacterTokenizer
from headwise.text.normalization import normalize
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import END, PAD, START, UNKNOWN


def trained(lines, vocab_size=1000, **options):
    options = {"tokenizer": "characters", "vocab_size": vocab_size, **options}
    return CharacterTokenizer.train(
        lines, vocab_size=vocab_size, settings=TextSettings(**options)
    )


def test_each_character_is_a_token_and_a_space_is_one_too():
    tokenizer = trained(["né à"])
    assert tokenizer.pieces(tokenizer.encode("né à")) == ["n", "é", "▁", "à"]


def test_the_most_frequent_come_first_and_ties_go_by_code_point():
    assert trained(["zzbba"]).vocabulary.pieces[4:] == ("b", "z", "a")


def test_vocab_size_is_a_cap_and_what_it_cuts_is_said():
    tokenizer = trained(["aaabbc"], vocab_size=6)

    assert tokenizer.vocabulary.pieces[4:] == ("a", "b")
    assert "too rare to get a token: 1 " in tokenizer.notes[0]
    assert trained(["aaabbc"]).notes == ()


def test_coverage_leaves_out_the_rarest():
    """98 of 100 characters are a, which is all the coverage that was asked."""
    tokenizer = trained(["a" * 98 + "bc"], character_coverage=0.98)
    assert tokenizer.vocabulary.pieces[4:] == ("a",)


def test_an_unknown_character_is_seen():
    tokenizer = trained(["abc"])
    assert tokenizer.encode("aéc") == [4, UNKNOWN, 6]
    assert tokenizer.decode([4, UNKNOWN, 6]) == "a⁇c"


def test_pad_start_and_end_are_not_text():
    assert trained(["ab"]).decode([START, 4, 5, END, PAD]) == "ab"


def test_the_users_symbols_are_whole():
    tokenizer = trained(["hi"], symbols=(">>fr<<",))

    ids = tokenizer.encode(">>fr<<hi")

    assert tokenizer.pieces(ids) == [">>fr<<", "h", "i"]
    assert tokenizer.decode(ids) == ">>fr<<hi"


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_no_text_is_a_data_error(lines):
    with pytest.raises(DataError, match="text is empty"):
        trained(lines)


@given(text=st.text())
@settings(deadline=None)
def test_known_text_comes_back_normalized(text):
    tokenizer = trained([text, "x"])
    assert tokenizer.decode(tokenizer.encode(text)) == normalize(text, "nfkc")


def test_a_saved_tokenizer_is_opened_again(tmp_path):
    options = {"tokenizer": "characters", "symbols": (">>fr<<",)}
    tokenizer = trained(["the cat"], **options)
    tokenizer.save(tmp_path / "vocabulary.json")

    opened = CharacterTokenizer.open(
        tmp_path / "vocabulary.json", TextSettings(**options)
    )

    text = ">>fr<< the dog"
    assert opened.encode(text) == tokenizer.encode(text)
