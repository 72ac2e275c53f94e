"""Several models that write one output together.

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
    """Return ln of (p_1 + ... + p_M) / M: any of the models may propose a word."""
    return log_p.logsumexp(0) - math.log(len(log_p))


def mean_of_log_probabilities(log_p: Tensor) -> Tensor:
    """Return (ln p_1 + ... + ln p_M) / M, normalised: each model may veto a word."""
    return log_p.mean(0).log_softmax(-1)


AVERAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "probabilities": mean_of_probabilities,
    "log-probabilities": mean_of_log_probabilities,
}
"""How the ln p [M, R, V] of all models become one [R, V]."""


@dataclass(frozen=True)
class EnsembleState:
    """What each model carries."""

    states: tuple[Any, ...]

    def rows(self, index: Tensor) -> EnsembleState:
        """Keep these rows in this order, repeats allowed."""
        return EnsembleState(tuple(each.rows(index) for each in self.states))


class Ensemble:
    """Models of the same vocabulary; to a search they are one."""

    def __init__(self, models: Sequence[Any], *, average: str) -> None:
        self.models = tuple(models)
        self.average = AVERAGES[average]

    def start(self, *source: Tensor) -> EnsembleState:
        """Let every model read the source."""
        return EnsembleState(tuple(model.start(*source) for model in self.models))

    def step(
        self, tokens: Tensor, state: EnsembleState
    ) -> tuple[Tensor, EnsembleState]:
        """Write one more token in every row; return ln p of what may follow."""
        steps = [
            model.step(tokens, each)
            for model, each in zip(self.models, state.states, strict=True)
        ]
        return self._together([logits for logits, _ in steps]), EnsembleState(
            tuple(newer for _, newer in steps)
        )

    def step_attending(
        self, tokens: Tensor, state: EnsembleState
    ) -> tuple[Tensor, Tensor, EnsembleState]:
        """Do as ``step``, and say where the models look on average."""
        steps = [
            model.step_attending(tokens, each)
            for model, each in zip(self.models, state.states, strict=True)
        ]
        return (
            self._together([logits for logits, _, _ in steps]),
            torch.stack([looks for _, looks, _ in steps]).mean(0),
            EnsembleState(tuple(newer for _, _, newer in steps)),
        )

    def _together(self, logits: Sequence[Tensor]) -> Tensor:
        return self.average(torch.stack([log_probabilities(each) for each in logits]))
