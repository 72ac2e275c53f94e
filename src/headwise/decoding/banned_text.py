"""Banned phrases: which tokens would complete one, in any segmentation.

A word has many segmentations into pieces (``▁Hund``, ``▁H und``), and a search soon
evades a ban on one of them. So the text that the pieces spell is compared: no output
contains a banned phrase between two word boundaries, however it is segmented.

A token that would complete the phrase is forbidden even if letters could follow that
make it another word; that word stays possible with other pieces. Case counts. Letters
and digits make words: a script without spaces has few word boundaries, and there a
phrase is banned only between punctuation marks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

SPACE = "\u2581"


def banned_text(
    phrases: Sequence[str], pieces: Sequence[str]
) -> Callable[[Sequence[int]], list[int]]:
    """Return a function from the tokens so far to the tokens that may not follow.

    ``pieces`` are the texts of all tokens, "" for tokens without one.
    """
    spelled = [SPACE.join(phrase.split()) for phrase in phrases]
    tables = [_completing_tokens(phrase, pieces) for phrase in spelled]
    always = {
        token
        for phrase in spelled
        for token, piece in enumerate(pieces)
        if _contains_phrase(piece, phrase)
    }

    def tokens_completing(tokens: Sequence[int]) -> list[int]:
        text = SPACE + "".join(pieces[token] for token in tokens)
        banned = set(always)
        for phrase, table in zip(spelled, tables, strict=True):
            for done, completing in enumerate(table):
                if completing and _ends_with(text, phrase[:done]):
                    banned |= completing
        return sorted(banned)

    return tokens_completing


def _completing_tokens(phrase: str, pieces: Sequence[str]) -> list[set[int]]:
    """Return the tokens that complete ``phrase``, for each length of it so far."""
    return [
        {
            token
            for token, piece in enumerate(pieces)
            if piece.startswith(phrase[done:])
            and _is_boundary(piece, len(phrase) - done)
        }
        for done in range(len(phrase))
    ]


def _contains_phrase(piece: str, phrase: str) -> bool:
    """Return whether a piece contains the phrase between word boundaries of its own."""
    place = piece.find(phrase, 1)
    while place > 0:
        if not piece[place - 1].isalnum() and _is_boundary(piece, place + len(phrase)):
            return True
        place = piece.find(phrase, place + 1)
    return False


def _ends_with(text: str, start: str) -> bool:
    """Return whether ``text`` ends with ``start``, behind a word boundary."""
    before = text[: len(text) - len(start)]
    return text.endswith(start) and not before[-1:].isalnum()


def _is_boundary(piece: str, place: int) -> bool:
    return not piece[place : place + 1].isalnum()
