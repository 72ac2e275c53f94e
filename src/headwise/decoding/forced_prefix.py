"""A forced prefix, as a value: what an output must start with.

``prefix_logits_processor`` has the rule that enforces it, and
``tasks.translation.prefix_tokenization`` makes it from text.

A text that is still being typed often ends inside a word, and the pieces of half a word
are seldom those of the whole word. So only the pieces of complete words are forced; the
last word is a text that pieces may spell in any way.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prefix:
    """The tokens an output starts with, then a text in any segmentation."""

    tokens: tuple[int, ...] = ()

    text: str = ""
    """As pieces spell it, white space as U+2581."""

    closed: bool = False
    """Whether the last word is complete: no letter may follow directly."""

    def __bool__(self) -> bool:
        return bool(self.tokens or self.text or self.closed)

    def __len__(self) -> int:
        """Return the largest number of tokens it may take."""
        return len(self.tokens) + len(self.text)


NO_PREFIX = Prefix()


def can_spell(piece: str, text: str, closed: bool) -> bool:
    """Return whether a piece is the start of ``text``, or starts with all of it."""
    if not piece or text.startswith(piece):
        return bool(piece)
    return piece.startswith(text) and not (closed and piece[len(text)].isalnum())
