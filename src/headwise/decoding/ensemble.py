"""An ensemble: the next-token distributions of several models, averaged.

Letters used for sizes: M models, R rows, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.decoding.topk import log_probabilities


def mean_of_probabilities(log_p: Tensor) -> Tensor:
    """Return ln of (p_1 + ... + p_M) / M: any of the models may propose a token."""
    return log_p.logsumexp(0) - math.log(len(log_p))


def mean_of_log_probabilities(log_p: Tensor) -> Tensor:
    """Return (ln p_1 + ... + ln p_M) / M, normalised: each model may veto a token."""
    return log_p.mean(0).log_softmax(-1)


AVERAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "probabilities": mean_of_probabilities,
    "log-probabilities": mean_of_log_probabilities,
}
"""How the ln p [M, R, V] of all models become one [R, V]."""


@dataclass(frozen=True)
class EnsembleState:
    """The decoder state of each model."""

    states: tuple[Any, ...]

    def index_select(self, index: Tensor) -> EnsembleState:
        """Select rows in this order, repeats allowed."""
        return EnsembleState(tuple(each.index_select(index) for each in self.states))


class Ensemble:
    """Decoders with one vocabulary, behind the protocol of a single one."""

    def __init__(self, models: Sequence[Any], *, average: str) -> None:
        self.models = tuple(models)
        self.average = AVERAGES[average]

    def start(self, *source: Tensor) -> EnsembleState:
        """Encode the source with every model."""
        return EnsembleState(tuple(model.start(*source) for model in self.models))

    def step(
        self, tokens: Tensor, state: EnsembleState
    ) -> tuple[Tensor, EnsembleState]:
        """Append ``tokens`` [R]; return the averaged ln p [R V] of the next token."""
        steps = [
            model.step(tokens, each)
            for model, each in zip(self.models, state.states, strict=True)
        ]
        return self._averaged([logits for logits, _ in steps]), EnsembleState(
            tuple(newer for _, newer in steps)
        )

    def step_with_attention(
        self, tokens: Tensor, state: EnsembleState
    ) -> tuple[Tensor, Tensor, EnsembleState]:
        """Run ``step``, and return the mean of the models' cross-attention too."""
        steps = [
            model.step_with_attention(tokens, each)
            for model, each in zip(self.models, state.states, strict=True)
        ]
        return (
            self._averaged([logits for logits, _, _ in steps]),
            torch.stack([attention for _, attention, _ in steps]).mean(0),
            EnsembleState(tuple(newer for _, _, newer in steps)),
        )

    def _averaged(self, logits: Sequence[Tensor]) -> Tensor:
        return self.average(torch.stack([log_probabilities(each) for each in logits]))
