"""Segmentations of the texts of one side, drawn at random, and how long they are.

Letters used for sizes in this file: N texts.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.text.subword_sampling import SubwordSampler
from headwise.text.tokenizer import Tokenizer
from headwise.text.vocabulary import UNKNOWN

FITTING = 0.98
"""Share of texts of which the segmentations that are drawn are within the margin."""


@dataclass(frozen=True, slots=True)
class Growth:
    """L tokens become up to ``factor`` · L + ``margin`` · √L."""

    factor: float
    margin: float

    @classmethod
    def measured(cls, stored: NDArray[np.int64], drawn: Sequence[int]) -> Growth:
        """Return the mean growth and the margin, each rounded up to hundredths.

        That makes them the same wherever square roots differ in their last bit.
        """
        lengths = np.array(drawn)
        factor = max(1.0, -(-100 * int(lengths.sum()) // int(stored.sum())) / 100)
        spread = (lengths - factor * stored) / np.sqrt(stored)
        margin = max(0.0, float(np.quantile(spread, FITTING)))
        return cls(factor, math.ceil(100 * margin - 1e-6) / 100)

    def applied_to(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the most tokens of texts of these lengths [N], not rounded."""
        found: NDArray[np.float64] = self.factor * lengths
        return found + self.margin * np.sqrt(lengths)


class SideTexts:
    """Texts of one side, and their segmentations; without a sampler none are drawn."""

    def __init__(self, tokenizer: Tokenizer, sampler: SubwordSampler | None) -> None:
        self._tokenizer = tokenizer
        self._sampler = sampler

    def text(self, stored: list[int]) -> str | None:
        """Return the text of a row; None if it has characters without a token."""
        return None if UNKNOWN in stored else self._tokenizer.decode(stored)

    def row(self, stored: list[int], seed: int, limit: int) -> list[int]:
        """Return a segmentation of the text of a row; the row if it is too long."""
        if self._sampler is None:
            return stored
        drawn = self._sampler.sample(stored, random.Random(seed).random)
        return drawn if len(drawn) <= limit else stored

    def encoded(self, text: str, seed: int, limit: int) -> list[int] | None:
        """Return a segmentation of a changed text; None if it cannot be used.

        That is one that is too long, or has characters without a token.
        """
        plain = self._tokenizer.encode(text)
        usable = 0 < len(plain) <= limit and UNKNOWN not in plain
        return self.row(plain, seed, limit) if usable else None
