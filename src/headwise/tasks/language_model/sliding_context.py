"""Generation of any length by a model that was trained on windows.

Positions beyond the window that a model was trained on mean nothing to it. So when a
text fills the window, its later half becomes the prompt of a new one, START first, as
in training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.text.vocabulary import PAD, START


@dataclass(frozen=True)
class SlidingState:
    """The state of the decoder, and the tokens of each row so far, without START."""

    inner: Any
    texts: list[list[int]]
    length: int
    """Tokens in the KV cache of the longest row, START included."""

    def index_select(self, index: Tensor) -> SlidingState:
        """Select batch rows in this order, repeats allowed."""
        texts = [list(self.texts[row]) for row in index.tolist()]
        return SlidingState(self.inner.index_select(index), texts, self.length)


class SlidingContext:
    """A decoder that moves its context on, for the searches of ``decoding``."""

    def __init__(self, decoder: Any, context: int, device: Any) -> None:
        self._decoder = decoder
        self._context = context
        self._device = device

    def start(self, prompts: list[list[int]]) -> SlidingState:
        """Begin texts with these prompts, of which the last tokens count."""
        return SlidingState(self._start(prompts), [list(p) for p in prompts], 0)

    def step(self, tokens: Tensor, state: SlidingState) -> tuple[Tensor, SlidingState]:
        """Append one token to every row; return the logits [B V] of the next one."""
        if state.length == 0:  # START, and the prompts
            logits, inner = self._decoder.step(tokens, state.inner)
            return logits, SlidingState(inner, state.texts, 1 + self._longest(state))
        for text, token in zip(state.texts, tokens.tolist(), strict=True):
            text.append(token)
        if state.length < self._context:
            logits, inner = self._decoder.step(tokens, state.inner)
            return logits, SlidingState(inner, state.texts, state.length + 1)
        moved = SlidingState(
            self._start([text[-(self._context // 2) :] for text in state.texts]),
            state.texts,
            0,
        )
        first = torch.full_like(tokens, START)
        logits, inner = self._decoder.step(first, moved.inner)
        return logits, SlidingState(inner, state.texts, 1 + self._context // 2)

    def _longest(self, state: SlidingState) -> int:
        return min(self._context - 1, max(map(len, state.texts), default=0))

    def _start(self, prompts: list[list[int]]) -> Any:
        kept = [prompt[-(self._context - 1) :] for prompt in prompts]
        longest = max(map(len, kept), default=0)
        rows = [prompt + [PAD] * (longest - len(prompt)) for prompt in kept]
        ids = torch.tensor(rows, dtype=torch.long, device=self._device)
        ids = ids.view(len(kept), longest)
        lengths = torch.tensor([len(each) for each in kept], device=self._device)
        is_real = torch.arange(longest, device=self._device) < lengths[:, None]
        return self._decoder.start(ids, is_real)
