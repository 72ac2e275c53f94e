"""What the trainer asks of whoever keeps its work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from torch import Tensor

from headwise.tasks.for_training import Transformer
from headwise.training.state import TrainingState
from headwise.training.validation import Validation


class Keeper(Protocol):
    """Where training puts what must not be lost."""

    def save(
        self,
        state: TrainingState,
        weights: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
        ema: Mapping[str, Tensor] | None,
    ) -> None:
        """Keep all that is needed to go on from ``state``."""

    def save_best(
        self, state: TrainingState, model: Transformer, validation: Validation
    ) -> None:
        """Keep a model that is better than any before."""

    def last_weights(self, count: int) -> Iterable[Mapping[str, Tensor]]:
        """Yield the weights of the last ``count`` checkpoints of this run's rhythm."""
