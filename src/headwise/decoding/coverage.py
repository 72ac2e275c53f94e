"""The coverage penalty: outputs pay for source tokens that were not attended to.

Wu et al. (2016, GNMT), equation 14: with p_ij the attention of output token j to source
token i, and m the length of the source,

    cp = beta * sum over i of ln(min(sum over j of p_ij, 1))

which is 0 where every source token got an attention of 1 in all, and never above.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

MIN_ATTENTION = 1e-6
"""Lower bound of a source token's attention, so that its logarithm is finite."""


class Coverage:
    """The attention that each hypothesis has paid to each source position so far.

    Letters used for sizes: R rows, one a hypothesis, M source positions.
    """

    def __init__(self, beta: float, source_lengths: Sequence[int]) -> None:
        self.beta = beta
        self.source_lengths = source_lengths
        self.attention_sums: Tensor | None = None  # [R, M]

    def add(self, attention: Tensor) -> None:
        """Add the attention weights [R M] of one step."""
        before = self.attention_sums
        self.attention_sums = attention if before is None else before + attention

    def index_select(self, index: Tensor) -> None:
        """Select rows in this order, repeats allowed."""
        if self.attention_sums is not None:
            self.attention_sums = self.attention_sums[index]

    def penalty(self, row: int, sentence: int) -> float:
        """Return what a hypothesis that ends now adds to its score: 0 or less."""
        assert self.attention_sums is not None
        sums = self.attention_sums[row, : self.source_lengths[sentence]]
        return self.beta * float(torch.log(sums.clamp(MIN_ATTENTION, 1.0)).sum())
