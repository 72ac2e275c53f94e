"""With lossless normalization, text comes back as it was, white space included."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import SettingsError
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import TOKENIZERS, train_tokenizer

TEXT = "  def f(x):\n\treturn  x\n\n\nfoo bar  \n"
KINDS = ["characters", "bpe", "unigram"]


def trained(kind, lines):
    # Unigram needs enough pieces to begin with.
    settings = TextSettings(
        tokenizer=kind, normalization="lossless", byte_fallback=kind != "characters"
    )
    return train_tokenizer(kind, lines * 20, vocab_size=330, settings=settings)


@pytest.mark.parametrize("kind", KINDS)
def test_text_round_trips_line_by_line(kind):
    lines = TEXT.splitlines(keepends=True)
    tokenizer = trained(kind, lines)

    ids = [token for line in lines for token in tokenizer.encode(line)]
    assert tokenizer.decode(ids) == TEXT


@pytest.mark.parametrize("kind", KINDS)
def test_it_round_trips_when_it_was_saved_and_opened(kind, tmp_path):
    tokenizer = trained(kind, [TEXT])
    path = tmp_path / "tokenizer"
    tokenizer.save(path)
    settings = TextSettings(tokenizer=kind, normalization="lossless")

    opened = TOKENIZERS[kind].open(path, settings)
    assert opened.decode(opened.encode(TEXT)) == TEXT


BPE = trained("bpe", [TEXT])


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁\0")))
def test_bytes_stand_in_for_characters_that_were_never_seen(text):
    assert BPE.decode(BPE.encode(text)) == text


@pytest.mark.parametrize("kind", ["words", "spaces"])
def test_tokenizers_that_drop_white_space_refuse_it(kind):
    with pytest.raises(SettingsError, match="lossless"):
        TextSettings(tokenizer=kind, normalization="lossless")
