"""What the trainer tells those who watch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.validation import Validation


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """One update of the weights."""

    step: int
    loss: float
    """Mean of the objective over the target tokens of the update, in nats."""

    learning_rate: float
    gradient_norm: float
    tokens: int
    """Source and target tokens learned from, without padding."""

    seconds: float
    """Time the update took."""


class Watcher(Protocol):
    """Someone who wants to know how training goes."""

    def starts(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Learn where training goes on from, and how many batches an epoch has."""

    def updated(self, update: Update, state: TrainingState) -> None:
        """Hear of an update of the weights."""

    def validated(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Hear what a look at the weights called ``name`` found."""

    def says(self, text: str) -> None:
        """Hear something that a person should read."""

    def ends(self, state: TrainingState, reason: str) -> None:
        """Hear that training ended, for good or for now."""
