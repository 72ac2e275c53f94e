"""Rules on scores: which tokens may not come next, or cost more.

Letters used for sizes in this file:

    R  rows, one a hypothesis        V  vocabulary        L  tokens generated so far

A rule treats each row by itself, so that no output depends on its batch. Probabilities
are not renormalised: other tokens keep the probability that the model gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.decoding.banned_text import banned_text
from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.prefix_logits_processor import force_prefixes
from headwise.decoding.rule_context import Rule, RuleContext
from headwise.decoding.settings import DecodingSettings


@dataclass(frozen=True, kw_only=True)
class RuleFacts:
    """What the rules need besides their settings."""

    end: int

    unknown: int | None = None

    pieces: Sequence[str] = ()
    """The text of each token, white space before it spelled as U+2581."""

    min_lengths: Sequence[int] = ()
    """Least tokens of each sentence's output, END not counted."""

    prefixes: Sequence[Prefix] = ()
    """The forced prefix of each sentence's output."""


def suppress_tokens(tokens: Sequence[int]) -> Rule:
    """Forbid these tokens."""

    def rule(scores: Tensor, context: RuleContext) -> Tensor:
        scores[:, list(tokens)] = -math.inf
        return scores

    return rule


def no_repeat_ngrams(size: int) -> Rule:
    """Forbid every sequence of ``size`` tokens that the output already contains.

    Paulus et al. (2018), A Deep Reinforced Model for Abstractive Summarization, did so
    with 3.
    """

    def rule(scores: Tensor, context: RuleContext) -> Tensor:
        tokens = context.tokens
        length = tokens.shape[1]
        if length < size:
            return scores
        ngrams = tokens.unfold(1, size, 1)  # R L -> R N size
        tail = tokens[:, None, length - size + 1 :]
        repeats = (ngrams[:, :, :-1] == tail).all(dim=2)
        banned = _token_mask(scores, ngrams[:, :, -1], repeats)
        return scores.masked_fill(banned, -math.inf)

    return rule


def repetition_penalty(penalty: float) -> Rule:
    """Multiply ln p of every token that the output already contains.

    Keskar et al. (2019, CTRL), equation 1, but on ln p, which is never positive, so
    that a penalty above 1 always discourages.
    """

    def rule(scores: Tensor, context: RuleContext) -> Tensor:
        everywhere = torch.ones_like(context.tokens, dtype=torch.bool)
        repeated = _token_mask(scores, context.tokens, everywhere)
        # -inf * penalty is -inf and 0 * penalty is 0: there are no special cases.
        return torch.where(repeated, scores * penalty, scores)

    return rule


def min_length(lengths: Sequence[int], end: int) -> Rule:
    """Forbid END before the least length of each sentence."""

    def rule(scores: Tensor, context: RuleContext) -> Tensor:
        least = torch.tensor(lengths, device=scores.device)[context.sentences]
        scores[least > context.tokens.shape[1], end] = -math.inf
        return scores

    return rule


def exact_count(token: int, counts: Sequence[int], end: int) -> Rule:
    """Allow no more of ``token`` than the count of each sentence, and END after all.

    Crego et al. (2016) copy placeholders so: as many in the output as in the source.
    """

    def rule(scores: Tensor, context: RuleContext) -> Tensor:
        wanted = torch.tensor(counts, device=scores.device)[context.sentences]
        found = (context.tokens == token).sum(dim=1)
        scores[found >= wanted, token] = -math.inf
        scores[found < wanted, end] = -math.inf
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
        suppress_tokens([facts.unknown])
        if settings.suppress_unknown and facts.unknown is not None
        else None
    ),
    "banned": lambda settings, facts: (
        _ban_phrases(settings.banned, facts) if settings.banned else None
    ),
    "no_repeat_ngram": lambda settings, facts: (
        no_repeat_ngrams(settings.no_repeat_ngram) if settings.no_repeat_ngram else None
    ),
    "min_length": lambda settings, facts: (
        min_length(facts.min_lengths, facts.end) if any(facts.min_lengths) else None
    ),
    "prefix": lambda settings, facts: (
        force_prefixes(facts.prefixes, facts.pieces, facts.end)
        if any(facts.prefixes)
        else None
    ),
}
"""Every rule under the name of its setting, in the order of application."""


def rules_for(settings: DecodingSettings, facts: RuleFacts) -> list[Rule]:
    """Return the rules that are switched on; usually there are none."""
    made = (make(settings, facts) for make in RULES.values())
    return [rule for rule in made if rule is not None]


def apply_rules(scores: Tensor, rules: Sequence[Rule], context: RuleContext) -> Tensor:
    """Apply all rules in order to a copy of ``scores`` [R V]."""
    scores = scores.clone()
    for rule in rules:
        scores = rule(scores, context)
    return scores


def _ban_phrases(phrases: Sequence[str], facts: RuleFacts) -> Rule:
    tokens_completing = banned_text(phrases, facts.pieces)

    def rule(scores: Tensor, context: RuleContext) -> Tensor:
        for row, tokens in enumerate(context.tokens.tolist()):
            if banned := tokens_completing(tokens):
                scores[row, banned] = -math.inf
        return scores

    return rule


def _token_mask(scores: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
    """Return [R, V], True for each of ``tokens`` [R, N] whose ``mask`` [R, N] is."""
    counts = torch.zeros(scores.shape, dtype=torch.int32, device=scores.device)
    return counts.scatter_add_(1, tokens, mask.int()) > 0
