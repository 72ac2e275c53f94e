"""The rule that an output begins with its prefix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from headwise.decoding.prefix import Prefix, spells
from headwise.decoding.rule import Rule, Written


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
