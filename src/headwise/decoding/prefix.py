"""A beginning that is given: what an output must start with.

A text that somebody is still typing ends anywhere, often inside a word, and the pieces
of half a word are seldom those of the whole one. So only the pieces of complete words
are forced; the last word is a text that pieces must spell in whatever way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from headwise.decoding.written import Rule, Written


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


def forced_prefix(prefixes: Sequence[Prefix], pieces: Sequence[str], end: int) -> Rule:
    """Begin each sentence's output with its prefix, whatever other rules say.

    ``pieces`` are the texts of all tokens, empty where a token is no text.
    """

    @cache
    def continuing(text: str, closed: bool) -> list[int]:
        return [
            token for token, piece in enumerate(pieces) if spells(piece, text, closed)
        ]

    @cache
    def borders() -> list[int]:
        opening = [
            token
            for token, piece in enumerate(pieces)
            if piece and not piece[0].isalnum()
        ]
        return [*opening, end]

    def allowed(
        prefix: Prefix, written: Sequence[int]
    ) -> tuple[list[int] | None, bool]:
        """Return the tokens that may follow, and whether the prefix goes on."""
        place = len(written)
        if place < len(prefix.tokens):
            return [prefix.tokens[place]], True
        spelled = "".join(pieces[token] for token in written[len(prefix.tokens) :])
        if len(spelled) < len(prefix.text):
            return continuing(prefix.text[len(spelled) :], prefix.closed), True
        return borders() if prefix.closed and spelled == prefix.text else None, False

    def rule(scores: Tensor, written: Written) -> Tensor:
        rows = zip(written.sentences.tolist(), written.tokens.tolist(), strict=True)
        for row, (sentence, tokens) in enumerate(rows):
            if not prefixes[sentence]:
                continue
            may_follow, given = allowed(prefixes[sentence], tokens)
            if may_follow is not None:
                chosen = torch.tensor(may_follow, device=scores.device)
                kept = (written.log_p if given else scores)[row, chosen]
                scores[row] = -math.inf
                scores[row, chosen] = kept
        return scores

    return rule
