"""A beginning that is given: what an output must start with.

A text that somebody is still typing ends anywhere, often inside a word, and the pieces
of half a word are seldom those of the whole one. So only the pieces of complete words
are forced; the last word is a text that pieces must spell in whatever way.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prefix:
    """What an output begins with: these tokens, and then a text however it is cut."""

    tokens: tuple[int, ...] = ()

    text: str = ""
    """In the letters of pieces, white space as U+2581."""

    closed: bool = False
    """Whether the last word is complete, so that no letter may follow at once."""

    def __bool__(self) -> bool:
        return bool(self.tokens or self.text or self.closed)

    def __len__(self) -> int:
        """Return the tokens it may take, at most."""
        return len(self.tokens) + len(self.text)


NO_PREFIX = Prefix()


def spells(piece: str, text: str, closed: bool) -> bool:
    """Say whether a piece is a part of ``text``, or all of it and more."""
    if not piece or text.startswith(piece):
        return bool(piece)
    return piece.startswith(text) and not (closed and piece[len(text)].isalnum())
