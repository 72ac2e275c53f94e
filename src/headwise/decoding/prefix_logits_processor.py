"""The rule that forces an output to start with its prefix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from headwise.decoding.forced_prefix import Prefix, can_spell
from headwise.decoding.rule_context import Rule, RuleContext


def force_prefixes(prefixes: Sequence[Prefix], pieces: Sequence[str], end: int) -> Rule:
    """Force each sentence's prefix, which other rules cannot forbid.

    ``pieces`` are the texts of all tokens, "" for tokens without one.
    """

    @cache
    def tokens_spelling(text: str, closed: bool) -> list[int]:
        return [
            token
            for token, piece in enumerate(pieces)
            if can_spell(piece, text, closed)
        ]

    @cache
    def tokens_after_word() -> list[int]:
        non_letters = [
            token
            for token, piece in enumerate(pieces)
            if piece and not piece[0].isalnum()
        ]
        return [*non_letters, end]

    def allowed(
        prefix: Prefix, generated: Sequence[int]
    ) -> tuple[list[int] | None, bool]:
        """Return the allowed tokens (None for all), and whether they are forced."""
        position = len(generated)
        if position < len(prefix.tokens):
            return [prefix.tokens[position]], True
        spelled = "".join(pieces[token] for token in generated[len(prefix.tokens) :])
        if len(spelled) < len(prefix.text):
            return tokens_spelling(prefix.text[len(spelled) :], prefix.closed), True
        ends_word = prefix.closed and spelled == prefix.text
        return tokens_after_word() if ends_word else None, False

    def rule(scores: Tensor, context: RuleContext) -> Tensor:
        rows = zip(context.sentences.tolist(), context.tokens.tolist(), strict=True)
        for row, (sentence, tokens) in enumerate(rows):
            if not prefixes[sentence]:
                continue
            allowed_tokens, is_forced = allowed(prefixes[sentence], tokens)
            if allowed_tokens is not None:
                ids = torch.tensor(allowed_tokens, device=scores.device)
                # Other rules do not apply to forced tokens: the model's own ln p.
                kept = (context.log_p if is_forced else scores)[row, ids]
                scores[row] = -math.inf
                scores[row, ids] = kept
        return scores

    return rule
