"""Text to forced prefixes, with the committed tokenizer."""

from pathlib import Path

import pytest

from headwise.decoding.forced_prefix import NO_PREFIX, Prefix
from headwise.run_folder.model_folder import open_model_folder
from headwise.tasks.translation.prefix_tokenization import (
    can_follow,
    encode_prefix,
    extend_prefix,
    piece_texts,
)

DEMO = Path(__file__).parents[2] / "models" / "demo"


@pytest.fixture(scope="module")
def tokenizer():
    return open_model_folder(DEMO).tokenizers.target


def test_the_last_word_is_a_text_and_those_before_it_are_tokens(tokenizer):
    prefix = encode_prefix(tokenizer, "Le petit chi")

    assert prefix.tokens == tuple(tokenizer.encode("Le petit"))
    assert prefix.text == "▁chi"
    assert not prefix.closed


def test_white_space_closes_the_last_word(tokenizer):
    assert encode_prefix(tokenizer, "Le ").closed
    assert encode_prefix(tokenizer, "") == NO_PREFIX


def test_symbols_have_no_text(tokenizer):
    texts = piece_texts(tokenizer)

    assert texts[:4] == [""] * 4
    assert len(texts) == tokenizer.size


def test_a_prefix_is_extended_by_tokens_that_can_follow():
    texts = ["", "▁ch", "ien", "▁chien", "▁chat"]
    prefix = Prefix((9,), "▁chi")

    assert [can_follow(each, texts, prefix) for each in range(5)] == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert extend_prefix(prefix, 1, texts) == Prefix((9, 1), "i")
    assert extend_prefix(prefix, 3, texts) == Prefix((9, 3), "")
