"""The protocols that the trainer calls: callbacks, and the writer of checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from headwise.model.sequence_model import SequenceModel
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.validation import Validation


@dataclass(frozen=True, kw_only=True, slots=True)
class StepMetrics:
    """Metrics of one optimizer step; the field names are those of ``log.jsonl``."""

    step: int
    loss: float
    """Loss per target token of the step's batches, in nats."""

    learning_rate: float
    gradient_norm: float
    """L2 norm over all gradients, before clipping."""

    tokens: int
    """Source and target tokens of the step's batches, without padding."""

    seconds: float
    """Wall-clock time of the step."""

    kl_divergence: float | None = None
    """Kullback-Leibler divergence between the two passes of R-Drop or SimCut, or from
    teachers, per target token, in nats, which is not in ``loss``; None without them."""


class Callback(Protocol):
    """Is told of each event of a training run, in the trainer's thread."""

    def on_start(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Handle the start from ``state``; an epoch has ``epoch_batches`` batches."""

    def on_step(self, update: StepMetrics, state: TrainingState) -> None:
        """Handle the metrics of one optimizer step; ``state`` is the one after it."""

    def on_validation(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Handle the validation of the weights called ``name``.

        ``best`` is True if no earlier validation was better.
        """

    def on_message(self, text: str) -> None:
        """Handle a message for the user."""

    def on_end(self, state: TrainingState, reason: str) -> None:
        """Handle the end, or an interruption, of training; ``reason`` says which."""


class CheckpointWriter(Protocol):
    """Stores checkpoints and the best model; training itself knows no folders."""

    def save(
        self,
        state: TrainingState,
        weights: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
        ema: Mapping[str, Tensor] | None,
    ) -> None:
        """Store a checkpoint: all that training needs to resume from ``state``."""

    def save_best(
        self, state: TrainingState, model: SequenceModel, validation: Validation
    ) -> None:
        """Store ``model`` as the best so far."""

    def last_weights(self, count: int) -> Iterable[Mapping[str, Tensor]]:
        """Yield the weights of the last ``count`` regular checkpoints."""
