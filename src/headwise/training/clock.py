"""The time that training takes, and when it must turn to its end."""

from __future__ import annotations

import time

from headwise.data.prepared import PreparedFacts
from headwise.training.callbacks import StepMetrics
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.time_left import TimeLeft
from headwise.training.validation import Validation


class Clock:
    """Runs from the moment it is made; watches training to know what its end takes.

    ``max_minutes`` is when everything is to be done, the last validation and what is
    saved after it too: so updates end earlier, by what those took or are likely to.
    """

    def __init__(
        self, settings: TrainingSettings, facts: PreparedFacts, state: TrainingState
    ) -> None:
        self._started = time.monotonic() - state.seconds
        self._limit = settings.max_minutes
        self._time_left = TimeLeft(facts)

    @property
    def seconds(self) -> float:
        """Time that training has taken, over all interruptions."""
        return time.monotonic() - self._started

    def is_late(self, state: TrainingState, step: int) -> bool:
        """Tell whether no update may follow ``step``; ``state`` is the one before."""
        if self._limit is None:
            return False
        return self.seconds + self._time_left.of_end(state, step) >= 60 * self._limit

    def on_start(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Begin to measure."""
        self._time_left.on_start(state, settings, epoch_batches)

    def on_step(self, update: StepMetrics, state: TrainingState) -> None:
        """Learn what an update took."""
        self._time_left.on_step(update, state)

    def on_validation(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Learn that there was a validation."""
        self._time_left.on_validation()

    def on_message(self, text: str) -> None:
        """Take no note of words."""

    def on_end(self, state: TrainingState, reason: str) -> None:
        """Do nothing."""
