"""The coverage penalty: outputs pay for source tokens that nobody looked at.

Wu et al. (2016, GNMT), equation 14: with p_ij the attention of output token j to source
token i, and m the length of the source,

    cp = beta * sum over i of ln(min(sum over j of p_ij, 1))

which is 0 where every source token got a whole look, and never above.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

LEAST = 1e-6
"""What a token counts as looked at that got no look at all."""


class Coverage:
    """How much each hypothesis of a search has looked at each source position.

    Letters used for sizes: R rows, one a hypothesis, M source positions.
    """

    def __init__(self, beta: float, source_lengths: Sequence[int]) -> None:
        self.beta = beta
        self.source_lengths = source_lengths
        self.looks: Tensor | None = None  # [R, M]

    def add(self, attention: Tensor) -> None:
        """Count what each row looked at in this step."""
        self.looks = attention if self.looks is None else self.looks + attention

    def rows(self, index: Tensor) -> None:
        """Keep these rows in this order, repeats allowed."""
        if self.looks is not None:
            self.looks = self.looks[index]

    def penalty(self, row: int, sentence: int) -> float:
        """Return what a hypothesis that ends here gains: 0 or less."""
        assert self.looks is not None
        looks = self.looks[row, : self.source_lengths[sentence]]
        return self.beta * float(torch.log(looks.clamp(LEAST, 1.0)).sum())
