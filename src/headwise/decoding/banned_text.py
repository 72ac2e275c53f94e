"""Which tokens would complete a banned phrase.

A word can be cut into pieces in many ways (``▁Hund``, ``▁H und``), and a ban on one of
them is soon walked around. So the text that pieces spell is looked at: no output spells
a banned phrase with the borders of words at both ends, however it is cut.

A token is refused where the phrase would end with it, even if letters could still be
written behind it that make another word of it; that word remains possible by other
pieces. Case counts. Letters and digits make words: a script without spaces has few
borders, and there only what stands between punctuation marks is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

SPACE = "\u2581"


def banned_text(
    phrases: Sequence[str], pieces: Sequence[str]
) -> Callable[[Sequence[int]], list[int]]:
    """Return a function from what is written to the tokens that may not follow.

    ``pieces`` are the texts of all tokens, empty where a token is no text.
    """
    spelled = [SPACE.join(phrase.split()) for phrase in phrases]
    tables = [_completing(phrase, pieces) for phrase in spelled]
    always = {
        token
        for phrase in spelled
        for token, piece in enumerate(pieces)
        if _holds_inside(piece, phrase)
    }

    def forbidden(tokens: Sequence[int]) -> list[int]:
        text = SPACE + "".join(pieces[token] for token in tokens)
        found = set(always)
        for phrase, table in zip(spelled, tables, strict=True):
            for done, completing in enumerate(table):
                if completing and _stands(text, phrase[:done]):
                    found |= completing
        return sorted(found)

    return forbidden


def _completing(phrase: str, pieces: Sequence[str]) -> list[set[int]]:
    """Return, for each length of what stands of ``phrase``, the tokens that end it."""
    return [
        {
            token
            for token, piece in enumerate(pieces)
            if piece.startswith(phrase[done:]) and _border(piece, len(phrase) - done)
        }
        for done in range(len(phrase))
    ]


def _holds_inside(piece: str, phrase: str) -> bool:
    """Say whether a piece spells the phrase as a whole, behind a border of its own."""
    place = piece.find(phrase, 1)
    while place > 0:
        if not piece[place - 1].isalnum() and _border(piece, place + len(phrase)):
            return True
        place = piece.find(phrase, place + 1)
    return False


def _stands(text: str, beginning: str) -> bool:
    """Say whether ``text`` ends with ``beginning``, with a border before it."""
    before = text[: len(text) - len(beginning)]
    return text.endswith(beginning) and not before[-1:].isalnum()


def _border(piece: str, place: int) -> bool:
    return not piece[place : place + 1].isalnum()
