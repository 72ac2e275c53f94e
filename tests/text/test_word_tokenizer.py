import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.errors import DataError
from headwise.text.normalization import normalize
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import END, PAD, START, UNKNOWN
from headwise.text.word_tokenizer import WordTokenizer


def trained(lines, vocab_size=100, **options):
    options = {"tokenizer": "words", "vocab_size": vocab_size, **options}
    return WordTokenizer.train(
        lines, vocab_size=vocab_size, settings=TextSettings(**options)
    )


def tokens_of(text, **options):
    tokenizer = trained([text], **options)
    return tokenizer.pieces(tokenizer.encode(text))


def test_words_and_marks_are_tokens_and_know_where_space_was():
    assert tokens_of('He said: "don\'t!"') == [
        "▁He", "▁said", ":", '▁"', "don", "'", "t", "!", '"',
    ]  # fmt: skip


def test_a_sound_of_phonetic_script_is_one_token():
    """t͡ʃ is three characters, the middle one a combining mark."""
    assert tokens_of("t͡ʃ ɛ̃ n̩ aː ˧˥") == ["▁t͡ʃ", "▁ɛ̃", "▁n̩", "▁aː", "▁˧˥"]


def test_marks_stay_with_what_they_stand_on():
    assert tokens_of("किताब क्‍ष", normalization="none") == ["▁किताब", "▁क्‍ष"]
    assert tokens_of("!\u0301?", normalization="none") == ["▁!\u0301", "?"]


def test_the_most_frequent_words_are_kept():
    tokenizer = trained(["a a a b b c"], vocab_size=6)
    assert tokenizer.vocabulary.pieces[4:] == ("▁a", "▁b")


def test_equally_frequent_words_are_taken_in_the_order_of_their_code_points():
    tokenizer = trained(["z é b a"], vocab_size=7)
    assert tokenizer.vocabulary.pieces[4:] == ("▁a", "▁b", "▁z")


def test_a_rare_word_is_unknown_and_seen():
    tokenizer = trained(["the the cat"], vocab_size=5)

    ids = tokenizer.encode("the cat")

    assert ids == [4, UNKNOWN]
    assert tokenizer.decode(ids) == "the ⁇"


def test_pad_start_and_end_are_not_text():
    tokenizer = trained(["a b"])
    assert tokenizer.decode([START, 4, 5, END, PAD]) == "a b"


def test_text_that_spells_a_special_symbol_is_only_text():
    tokenizer = trained(["<s> <pad> x"])
    ids = tokenizer.encode("<s> <pad>")
    assert min(ids) > UNKNOWN
    assert tokenizer.decode(ids) == "<s> <pad>"


def test_the_users_symbols_are_whole_and_first_in_the_vocabulary():
    tokenizer = trained(["hello fr"], symbols=(">>fr<<", ">>fr"))

    ids = tokenizer.encode(">>fr<< hello >>fr")

    assert tokenizer.pieces(ids) == [">>fr<<", "▁hello", ">>fr"]
    assert ids[0] == 4
    assert tokenizer.decode(ids) == ">>fr<< hello >>fr"


def test_a_small_text_gives_a_smaller_vocabulary_and_says_so():
    tokenizer = trained(["a b"], vocab_size=50)
    assert tokenizer.size == 6
    assert "vocab_size=50" in tokenizer.notes[0]


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_no_text_is_a_data_error(lines):
    with pytest.raises(DataError, match="text is empty"):
        trained(lines)


@given(text=st.text())
@settings(deadline=None)
def test_known_text_comes_back_normalized(text):
    tokenizer = trained([text, "x"], vocab_size=1000)
    assert tokenizer.decode(tokenizer.encode(text)) == normalize(text, "nfkc")


@given(text=st.text("ab <>.,"))
@settings(deadline=None)
def test_known_text_with_symbols_comes_back_up_to_white_space(text):
    tokenizer = trained([text, "x"], vocab_size=1000, symbols=("<a>", "<<b"))
    back = tokenizer.decode(tokenizer.encode(text))
    assert back.replace(" ", "") == text.replace(" ", "")


def test_a_saved_tokenizer_is_opened_again(tmp_path):
    options = {"tokenizer": "words", "symbols": (">>fr<<",), "vocab_size": 20}
    tokenizer = trained(["the cat ﬁ"], **options)
    tokenizer.save(tmp_path / "vocabulary.json")

    opened = WordTokenizer.open(tmp_path / "vocabulary.json", TextSettings(**options))

    text = ">>fr<< the ﬁ dog"
    assert opened.encode(text) == tokenizer.encode(text)
