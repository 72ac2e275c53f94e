"""What keeps the groups of a diverse beam apart.

Vijayakumar et al. (2016), Diverse Beam Search, Algorithm 1 with Hamming diversity: the
groups of a beam take their steps in turn, and a token costs a later group ``strength``
for each hypothesis of an earlier group that has just been continued with it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.decoding.rule import Written


class HammingDiversity:
    """A rule on scores that remembers what earlier groups wrote in this step."""

    def __init__(self, strength: float, num_sentences: int) -> None:
        self.strength = strength
        self.num_sentences = num_sentences
        self._counts: Tensor | None = None  # [sentences, vocabulary]

    def __call__(self, scores: Tensor, written: Written) -> Tensor:
        """Let each token pay for the earlier groups that took it."""
        if self._counts is None:
            return scores
        return scores - self.strength * self._counts[written.sentences]

    def new_step(self) -> None:
        """Forget the step before."""
        self._counts = None

    def note(self, sentences: Tensor, tokens: Tensor, vocabulary: int) -> None:
        """Remember what a group wrote, a token [R] in each row of a sentence [R]."""
        if self._counts is None:
            shape = (self.num_sentences, vocabulary)
            self._counts = torch.zeros(shape, device=tokens.device)
        ones = torch.ones(len(tokens), device=tokens.device)
        self._counts.index_put_((sentences, tokens), ones, accumulate=True)
