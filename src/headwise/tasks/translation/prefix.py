"""What outputs are to begin with, and which tokens may come next."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.decoding.prefix import Prefix, spells
from headwise.text.tokenizer import Tokenizer
from headwise.text.vocabulary import SPECIALS, WORD_START


def written_pieces(tokenizer: Tokenizer) -> list[str]:
    """Return what each token spells; nothing where it is a symbol or a single byte."""
    pieces = tokenizer.pieces(range(tokenizer.size))
    return [
        "" if number < len(SPECIALS) or _is_byte(piece) else piece
        for number, piece in enumerate(pieces)
    ]


def prefix_of(tokenizer: Tokenizer, text: str) -> Prefix:
    """Return the prefix that outputs have which begin with ``text``."""
    tokens = tokenizer.encode(text)
    pieces = [
        "" if token < len(SPECIALS) or _is_byte(piece) else piece
        for token, piece in zip(tokens, tokenizer.pieces(tokens), strict=True)
    ]
    closed = bool(tokens) and text[-1:].isspace()
    last = len(tokens)
    while last and not pieces[last - 1].startswith(WORD_START):
        last -= 1
    begun = pieces[max(last - 1, 0) :]
    if not all(begun):  # letters that no piece spells: only these very tokens will do
        return Prefix(tuple(tokens), closed=closed)
    return Prefix(tuple(tokens[: max(last - 1, 0)]), "".join(begun), closed)


def fits(token: int, pieces: Sequence[str], prefix: Prefix) -> bool:
    """Say whether a token may follow the tokens of a prefix."""
    piece = pieces[token]
    if not prefix.text:
        return not (prefix.closed and piece[:1].isalnum())
    return spells(piece, prefix.text, prefix.closed)


def with_token(prefix: Prefix, token: int, pieces: Sequence[str]) -> Prefix:
    """Return the prefix with one more token, which fits it."""
    rest = prefix.text[len(pieces[token]) :]
    closed = prefix.closed and pieces[token] in prefix.text
    return Prefix((*prefix.tokens, token), rest, closed)


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
