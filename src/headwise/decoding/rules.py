"""Rules on scores: what may not be written next, or costs more.

Letters used for sizes in this file:

    R  rows, one a hypothesis        V  vocabulary        L  tokens written so far

A rule looks at one row at a time, so that no output depends on the batch it is in. What
it takes away goes to nobody: other tokens keep the probability that the model gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.decoding.banned_text import banned_text
from headwise.decoding.forced_prefix import forced_prefix
from headwise.decoding.prefix import Prefix
from headwise.decoding.rule import Rule, Written
from headwise.decoding.settings import DecodingSettings


@dataclass(frozen=True, kw_only=True)
class RuleFacts:
    """What rules must know besides their settings."""

    end: int

    unknown: int | None = None

    pieces: Sequence[str] = ()
    """The text of each token, white space before it written as U+2581."""

    min_lengths: Sequence[int] = ()
    """Tokens that each sentence must have, END not counted."""

    prefixes: Sequence[Prefix] = ()
    """What each sentence's output begins with."""


def suppressed(tokens: Sequence[int]) -> Rule:
    """Never write these tokens."""

    def rule(scores: Tensor, written: Written) -> Tensor:
        scores[:, list(tokens)] = -math.inf
        return scores

    return rule


def banned_sequences(sequences: Sequence[Sequence[int]]) -> Rule:
    """Never write any of these sequences of tokens."""

    def rule(scores: Tensor, written: Written) -> Tensor:
        length = written.tokens.shape[1]
        for *before, last in sequences:
            if len(before) > length:
                continue
            tail = written.tokens[:, length - len(before) :]
            wanted = torch.tensor(before, dtype=tail.dtype, device=tail.device)
            follows = (tail == wanted).all(dim=1)
            scores[follows, last] = -math.inf
        return scores

    return rule


def no_repeat_ngrams(size: int) -> Rule:
    """Never write a sequence of ``size`` tokens twice in one output.

    Paulus et al. (2018), A Deep Reinforced Model for Abstractive Summarization, did so
    with 3.
    """

    def rule(scores: Tensor, written: Written) -> Tensor:
        tokens = written.tokens
        length = tokens.shape[1]
        if length < size:
            return scores
        ngrams = tokens.unfold(1, size, 1)  # R L -> R N size
        tail = tokens[:, None, length - size + 1 :]
        again = (ngrams[:, :, :-1] == tail).all(dim=2)
        return scores.masked_fill(_marked(scores, ngrams[:, :, -1], again), -math.inf)

    return rule


def repetition_penalty(penalty: float) -> Rule:
    """Multiply ln p of every token that the output holds already.

    Keskar et al. (2019, CTRL), equation 1, on ln p, which is never above 0, so that
    the penalty works one way.
    """

    def rule(scores: Tensor, written: Written) -> Tensor:
        seen = torch.ones_like(written.tokens, dtype=torch.bool)
        again = _marked(scores, written.tokens, seen)
        # -inf * penalty is -inf, and 0 * penalty is 0: no case is special.
        return torch.where(again, scores * penalty, scores)

    return rule


def min_length(lengths: Sequence[int], end: int) -> Rule:
    """Write END only behind so many tokens, a number for each sentence."""

    def rule(scores: Tensor, written: Written) -> Tensor:
        wanted = torch.tensor(lengths, device=scores.device)[written.sentences]
        scores[wanted > written.tokens.shape[1], end] = -math.inf
        return scores

    return rule


MakeRule = Callable[[DecodingSettings, RuleFacts], Rule | None]

RULES: dict[str, MakeRule] = {
    "repetition_penalty": lambda settings, facts: (
        repetition_penalty(settings.repetition_penalty)
        if settings.repetition_penalty != 1
        else None
    ),
    "suppress_unknown": lambda settings, facts: (
        suppressed([facts.unknown])
        if settings.suppress_unknown and facts.unknown is not None
        else None
    ),
    "banned": lambda settings, facts: (
        _banned(settings.banned, facts) if settings.banned else None
    ),
    "no_repeat_ngram": lambda settings, facts: (
        no_repeat_ngrams(settings.no_repeat_ngram) if settings.no_repeat_ngram else None
    ),
    "min_length": lambda settings, facts: (
        min_length(facts.min_lengths, facts.end) if any(facts.min_lengths) else None
    ),
    "prefix": lambda settings, facts: (
        forced_prefix(facts.prefixes, facts.pieces, facts.end)
        if any(facts.prefixes)
        else None
    ),
}
"""Every rule under the setting that asks for it, in the order in which they apply."""


def rules_for(settings: DecodingSettings, facts: RuleFacts) -> list[Rule]:
    """Return the rules that are asked for; mostly there are none."""
    made = (make(settings, facts) for make in RULES.values())
    return [rule for rule in made if rule is not None]


def ruled(scores: Tensor, rules: Sequence[Rule], written: Written) -> Tensor:
    """Apply all rules, one after another, to a copy of ``scores``."""
    scores = scores.clone()
    for rule in rules:
        scores = rule(scores, written)
    return scores


def _banned(phrases: Sequence[str], facts: RuleFacts) -> Rule:
    forbids = banned_text(phrases, facts.pieces)

    def rule(scores: Tensor, written: Written) -> Tensor:
        for row, tokens in enumerate(written.tokens.tolist()):
            tokens_now = forbids(tokens)
            if tokens_now:
                scores[row, tokens_now] = -math.inf
        return scores

    return rule


def _marked(scores: Tensor, tokens: Tensor, marks: Tensor) -> Tensor:
    """Return [R, V], True for each of ``tokens`` [R, N] that has a mark [R, N]."""
    counts = torch.zeros(scores.shape, dtype=torch.int32, device=scores.device)
    return counts.scatter_add_(1, tokens, marks.int()) > 0
