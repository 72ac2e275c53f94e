"""Text to ``Prefix``: the tokens and the text that a forced prefix consists of."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.decoding.forced_prefix import Prefix, can_spell
from headwise.text.tokenizer import Tokenizer
from headwise.text.vocabulary import SPECIALS, WORD_START


def piece_texts(tokenizer: Tokenizer) -> list[str]:
    """Return the text of each token of the vocabulary; "" for symbols and bytes."""
    return _texts_of(range(tokenizer.size), tokenizer)


def encode_prefix(tokenizer: Tokenizer, text: str) -> Prefix:
    """Return the forced prefix of outputs that start with ``text``."""
    tokens = tokenizer.encode(text)
    texts = _texts_of(tokens, tokenizer)
    closed = bool(tokens) and text[-1:].isspace()
    last_word = len(tokens)
    while last_word and not texts[last_word - 1].startswith(WORD_START):
        last_word -= 1
    last_word = max(last_word - 1, 0)
    letters = texts[last_word:]
    if not all(letters):  # symbols or bytes: only these very tokens will do
        return Prefix(tuple(tokens), closed=closed)
    return Prefix(tuple(tokens[:last_word]), "".join(letters), closed)


def can_follow(token: int, texts: Sequence[str], prefix: Prefix) -> bool:
    """Return whether a token may follow the tokens of a prefix."""
    text = texts[token]
    if not prefix.text:
        return not (prefix.closed and text[:1].isalnum())
    return can_spell(text, prefix.text, prefix.closed)


def extend_prefix(prefix: Prefix, token: int, texts: Sequence[str]) -> Prefix:
    """Return the prefix with one more token, which ``can_follow``."""
    rest = prefix.text[len(texts[token]) :]
    closed = prefix.closed and texts[token] in prefix.text
    return Prefix((*prefix.tokens, token), rest, closed)


def _texts_of(tokens: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    return [
        "" if token < len(SPECIALS) or _is_byte(piece) else piece
        for token, piece in zip(tokens, tokenizer.pieces(tokens), strict=True)
    ]


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
