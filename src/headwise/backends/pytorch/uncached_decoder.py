"""Decoding without a KV cache: each step runs the whole model on the whole prefix.

It is a reference for the cached decoders; ``tests/backends/pytorch/
test_uncached_decoder.py`` holds it equal to ``Transformer.step``. The target is a row
of fixed length that begins with the start token and is otherwise padding. Each step
reads the scores behind the last token, and writes the next one into the row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from headwise.model.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class UncachedState:
    """The source, and the target so far in a row of length n."""

    source: Integer[Tensor, "B S *P"]
    source_is_real: Bool[Tensor, "B S"]
    target: Int[Tensor, "B n"]
    position: int

    def index_select(self, index: Int[Tensor, " rows"]) -> UncachedState:
        """Keep these batch rows, repeats allowed."""
        return replace(
            self,
            source=self.source[index],
            source_is_real=self.source_is_real[index],
            target=self.target[index],
        )


class UncachedDecoder:
    """A model that keeps no keys and values from step to step.

    ``length`` is that of the longest output, ``padding`` the token behind its end.
    """

    def __init__(self, model: EncoderDecoder, *, length: int, padding: int) -> None:
        self.model = model
        self.length = length
        self.padding = padding

    def start(
        self, source: Integer[Tensor, "B S *P"], source_is_real: Bool[Tensor, "B S"]
    ) -> UncachedState:
        """Return a state with one row of padding for each source."""
        shape = (source.shape[0], self.length)
        target = torch.full(shape, self.padding, device=source.device)
        return UncachedState(source, source_is_real, target, 0)

    def step(
        self, tokens: Int[Tensor, " B"], state: UncachedState
    ) -> tuple[Float[Tensor, "B V"], UncachedState]:
        """Append one token to every row; return the scores of the next one."""
        target = state.target.clone()
        target[:, state.position] = tokens
        scores = self.model(state.source, target, state.source_is_real)
        newer = replace(state, target=target, position=state.position + 1)
        return scores[:, state.position], newer
