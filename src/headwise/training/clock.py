"""The time that training takes, and when it must turn to its end."""

from __future__ import annotations

import time

from headwise.data.prepared import PreparedFacts
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.time_left import TimeLeft
from headwise.training.validation import Validation
from headwise.training.watch import Update


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

    def starts(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Begin to measure."""
        self._time_left.starts(state, settings, epoch_batches)

    def updated(self, update: Update, state: TrainingState) -> None:
        """Learn what an update took."""
        self._time_left.updated(update, state)

    def validated(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Learn that there was a validation."""
        self._time_left.validated()

    def says(self, text: str) -> None:
        """Take no note of words."""

    def ends(self, state: TrainingState, reason: str) -> None:
        """Do nothing."""
