"""Inference as a reader would do it by hand: the readable twin of the cached steps.

The target is a row of fixed length that begins with the start token and is otherwise
empty. Each step passes source and target through the whole stack again, reads the
scores behind the last word, and refills the row with one word more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.model.transformer import Transformer


@dataclass(frozen=True)
class RefilledRow:
    """Source, and the target as far as it is written; ``n`` places in all."""

    source: Int[Tensor, "B S"]
    source_is_real: Bool[Tensor, "B S"]
    target: Int[Tensor, "B n"]
    written: int

    def rows(self, index: Int[Tensor, " rows"]) -> RefilledRow:
        """Keep these batch rows, repeats allowed."""
        return replace(
            self,
            source=self.source[index],
            source_is_real=self.source_is_real[index],
            target=self.target[index],
        )


class RefillingDecoder:
    """A :class:`Transformer` that remembers nothing from step to step."""

    def __init__(self, model: Transformer, *, length: int, empty: int) -> None:
        self.model = model
        self.length = length
        self.empty = empty

    def start(
        self, source: Int[Tensor, "B S"], source_is_real: Bool[Tensor, "B S"]
    ) -> RefilledRow:
        """Begin with a row of empty tokens."""
        shape = (source.shape[0], self.length)
        target = torch.full(shape, self.empty, device=source.device)
        return RefilledRow(source, source_is_real, target, 0)

    def step(
        self, tokens: Int[Tensor, " B"], state: RefilledRow
    ) -> tuple[Float[Tensor, "B V"], RefilledRow]:
        """Fill in one word and run the whole stack on the full row."""
        target = state.target.clone()
        target[:, state.written] = tokens
        scores = self.model(state.source, target, state.source_is_real)
        newer = replace(state, target=target, written=state.written + 1)
        return scores[:, state.written], newer
