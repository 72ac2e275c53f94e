"""Hamming diversity: the penalty that keeps the groups of a diverse beam apart.

Vijayakumar et al. (2016), Diverse Beam Search, Algorithm 1: the groups of a beam take
their steps in turn, and a token costs a later group ``strength`` for each hypothesis of
an earlier group that has just been extended with it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.decoding.rule_context import RuleContext


class HammingDiversity:
    """A rule on scores that counts the tokens earlier groups chose in this step."""

    def __init__(self, strength: float, num_sentences: int) -> None:
        self.strength = strength
        self.num_sentences = num_sentences
        self._counts: Tensor | None = None  # [sentences, vocabulary]

    def __call__(self, scores: Tensor, context: RuleContext) -> Tensor:
        """Subtract ``strength`` from a token for each earlier choice of it."""
        if self._counts is None:
            return scores
        return scores - self.strength * self._counts[context.sentences]

    def start_step(self) -> None:
        """Reset the counts."""
        self._counts = None

    def add_choices(self, sentences: Tensor, tokens: Tensor, vocab_size: int) -> None:
        """Count the tokens [R] that a group chose for the sentences [R]."""
        if self._counts is None:
            shape = (self.num_sentences, vocab_size)
            self._counts = torch.zeros(shape, device=tokens.device)
        ones = torch.ones(len(tokens), device=tokens.device)
        self._counts.index_put_((sentences, tokens), ones, accumulate=True)
