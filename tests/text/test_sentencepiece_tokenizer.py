import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.errors import DataError, ModelError, SettingsError
from headwise.text.sentencepiece_tokenizer import (
    MAX_LINE_BYTES,
    SentencePieceTokenizer,
    train_bpe,
    train_unigram,
)
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import END, PAD, SPECIALS, START, UNKNOWN

LINES = [
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "L'animal n'a pas traversé la rue parce qu'elle était trop large.",
] * 3

both = pytest.mark.parametrize("train", [train_bpe, train_unigram])


def trained(train=train_bpe, lines=LINES, vocab_size=60, **options):
    options = {"vocab_size": vocab_size, **options}
    return train(lines, vocab_size=vocab_size, settings=TextSettings(**options))


@pytest.fixture(scope="module")
def spelling():
    """Return a tokenizer that spells what it does not know as bytes."""
    return trained(vocab_size=330, byte_fallback=True)


@both
def test_special_symbols_have_the_ids_of_every_tokenizer(train):
    assert trained(train).pieces([PAD, START, END, UNKNOWN]) == list(SPECIALS)


@both
def test_known_text_comes_back(train):
    tokenizer = trained(train)
    for line in LINES:
        assert tokenizer.decode(tokenizer.encode(line)) == line


@both
def test_the_same_text_gives_the_same_bytes(train):
    assert trained(train).model == trained(train).model


@both
def test_pad_start_and_end_are_not_text(train):
    tokenizer = trained(train)
    ids = tokenizer.encode(LINES[0])
    assert tokenizer.decode([START, *ids, END, PAD, PAD]) == LINES[0]


@both
def test_text_that_spells_a_special_symbol_is_only_text(train):
    ids = trained(train).encode("<s> the </s> <pad>")
    assert not {PAD, START, END} & set(ids)


@both
def test_an_unknown_character_is_seen(train):
    tokenizer = trained(train)
    ids = tokenizer.encode("the 猫")
    assert UNKNOWN in ids
    assert tokenizer.decode(ids) == "the ⁇"


@both
def test_the_users_symbols_are_never_split(train):
    tokenizer = trained(train, symbols=(">>fr<<", "a,b", 'say"so'))

    assert tokenizer.pieces([4, 5, 6]) == [">>fr<<", "a,b", 'say"so']
    ids = tokenizer.encode('>>fr<< the a,b say"so>>fr<<')
    assert [each for each in ids if each in (4, 5, 6)] == [4, 5, 6, 4]
    assert tokenizer.decode(ids) == '>>fr<< the a,b say"so>>fr<<'


def test_bytes_spell_what_has_no_piece(spelling):
    for text in ("猫 and 🐈‍⬛", "the ½猫", "\x07"):
        ids = spelling.encode(text)
        assert UNKNOWN not in ids
    assert spelling.decode(spelling.encode("猫 and 🐈‍⬛")) == "猫 and 🐈‍⬛"


def test_a_translation_is_one_line_whatever_bytes_a_model_makes(spelling):
    newline, half = "<0x0A>", "<0xE3>"
    names = spelling.pieces(range(spelling.size))
    ids = [names.index(newline), names.index(half), names.index("<0x0D>")]

    assert spelling.decode([*spelling.encode("a"), *ids]) == "a \ufffd "


@given(text=st.text())
@settings(deadline=None)
def test_any_text_can_be_encoded_and_decoded_to_one_line(spelling, text):
    ids = spelling.encode(text)
    assert all(0 <= each < spelling.size for each in ids)
    assert "\n" not in spelling.decode(ids)


def test_nfkc_and_none_are_the_forms_of_the_library():
    folded = trained(lines=[*LINES, "fi"])
    kept = trained(lines=[*LINES, "ﬁ"], normalization="none")

    assert folded.decode(folded.encode("ﬁ  fi")) == "fi fi"
    assert kept.decode(kept.encode("ﬁ  ﬁ")) == "ﬁ ﬁ"


@both
def test_a_small_corpus_gives_a_smaller_vocabulary_and_says_so(train):
    tokenizer = trained(train, vocab_size=8000)

    assert tokenizer.size < 500
    (note,) = tokenizer.notes
    assert f"only {tokenizer.size:,} " in note
    assert "not vocab_size=8,000" in note


def test_a_size_that_was_reached_needs_no_note():
    tokenizer = trained(vocab_size=60)
    assert (tokenizer.size, tokenizer.notes) == (60, ())


@both
def test_too_small_a_vocabulary_says_how_large_it_must_be(train):
    with pytest.raises(SettingsError) as caught:
        trained(train, vocab_size=10)
    needed = int(str(caught.value).split("at least ")[1].split(",")[0])

    assert trained(train, vocab_size=needed + 1).size <= needed + 1


@both
@pytest.mark.parametrize("lines", [[], [""], ["", "  ", "\u2028"]])
def test_no_text_is_a_data_error(train, lines):
    with pytest.raises(DataError, match="text is empty"):
        trained(train, lines)


def test_overlong_lines_are_not_trained_on_and_reported():
    tokenizer = trained(lines=[*LINES, "猫" * MAX_LINE_BYTES])

    assert "skipped lines longer than 100,000 bytes (1 in all)" in (tokenizer.notes[0])
    assert UNKNOWN in tokenizer.encode("猫")


def test_training_a_tokenizer_prints_nothing(capfd):
    trained(vocab_size=8000)
    assert capfd.readouterr() == ("", "")


def test_a_saved_model_is_opened_again(tmp_path):
    tokenizer = trained()
    tokenizer.save(tmp_path / "spm.model")

    opened = SentencePieceTokenizer.open(tmp_path / "spm.model", TextSettings())

    assert opened.model == tokenizer.model
    assert opened.encode(LINES[0]) == tokenizer.encode(LINES[0])


def damaged(model):
    """Yield ways in which a file can be broken."""
    yield b""
    yield b"not a model"
    yield b"\x00" * 1000
    yield model[:100]
    yield model[:-100]
    yield model.replace(b"<pad>", b"<pud>")
    yield model.replace(b"<pad>", b"\xff\xff\xff\xff\xff")
    yield model.replace("é".encode(), b"\xff\xff")


def test_a_broken_model_is_a_model_error(tmp_path):
    path = tmp_path / "spm.model"
    for content in damaged(trained().model):
        path.write_bytes(content)
        with pytest.raises(ModelError, match=r"spm\.model is not a SentencePiece"):
            SentencePieceTokenizer.open(path, TextSettings())


def protobuf_field(number, content):
    """Encode a field that holds bytes, its length in 7-bit groups, lowest first."""
    length, groups = len(content), []
    while length > 127:
        groups.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *groups, length]) + content


def test_a_piece_made_to_exhaust_the_stack_is_an_error():
    """It ended the whole process in SentencePiece 0.2.1 (its issue 1263)."""
    piece = protobuf_field(1, protobuf_field(1, b"a" * 1_000_000))
    with pytest.raises(ValueError, match="damaged"):
        SentencePieceTokenizer(trained().model + piece)


def test_a_normalization_table_made_to_read_past_its_end_is_an_error():
    """It ended the whole process in SentencePiece 0.2.1 (its issue 1269).

    The table follows its name and opens with its size; then comes the first node.
    """
    model = bytearray(trained().model)
    node = model.index(b"nmt_nfkc") + len(b"nmt_nfkc") + 8
    model[node : node + 4] = b"\xff\xff\xff\x7f"
    with pytest.raises(ValueError, match="damaged"):
        SentencePieceTokenizer(bytes(model))


def test_a_missing_model_is_a_model_error(tmp_path):
    with pytest.raises(ModelError, match=r"spm\.model"):
        SentencePieceTokenizer.open(tmp_path / "spm.model", TextSettings())


@given(place=st.integers(0, 10**7), value=st.integers(0, 255))
@settings(deadline=None)
def test_a_changed_byte_never_does_worse_than_an_error(spelling, place, value):
    model = bytearray(spelling.model)
    model[place % len(model)] = value
    try:
        tokenizer = SentencePieceTokenizer(bytes(model))
    except ValueError:
        return
    tokenizer.encode("The ½ ﬁ \u2028 猫")


def test_a_model_with_other_special_ids_is_refused(tmp_path):
    """SentencePiece's own defaults are <unk>, <s>, </s> and no pad."""
    with (tmp_path / "spm.model").open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(LINES),
            model_writer=file,
            vocab_size=60,
            model_type="bpe",
            minloglevel=2,
        )
    with pytest.raises(ModelError, match="it starts with"):
        SentencePieceTokenizer.open(tmp_path / "spm.model", TextSettings())


def test_a_model_without_the_users_symbols_is_refused(tmp_path):
    trained().save(tmp_path / "spm.model")
    with pytest.raises(ModelError, match="lacks the symbols >>fr<<"):
        SentencePieceTokenizer.open(
            tmp_path / "spm.model", TextSettings(symbols=(">>fr<<",))
        )
