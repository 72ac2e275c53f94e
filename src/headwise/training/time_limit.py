"""The time limit of training (``training.max_minutes``)."""

from __future__ import annotations

import time

from headwise.data.prepared import PreparedFacts
from headwise.training.callbacks import StepMetrics
from headwise.training.cooldown import fraction
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.time_left import TimeLeft
from headwise.training.validation import Validation
from headwise.wording import duration

TOLERANCE = 0.05
"""Share of the limit by which an estimate may exceed it without a message."""


class TimeLimit:
    """Measures training time from its making on, as a callback.

    By ``max_minutes`` everything is done, the last validation and checkpoint included:
    so updates end earlier, by the time that these are estimated to take. A limit is
    exceeded if start-up, one step, a validation and a checkpoint take longer. Of
    several ranks one ``keeps_time``; to the others time is never over.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        facts: PreparedFacts,
        state: TrainingState,
        *,
        keeps_time: bool = True,
    ) -> None:
        self._started = time.monotonic() - state.seconds
        self._limit = settings.max_minutes
        self._cooldown = fraction(settings)
        self._keeps_time = keeps_time
        self._time_left = TimeLeft(facts)

    @property
    def seconds(self) -> float:
        """Seconds of training so far, over all interruptions."""
        return time.monotonic() - self._started

    def is_reached_after(self, state: TrainingState, step: int) -> bool:
        """Return whether ``step`` must be the last; ``state`` is the one before it."""
        if self._limit is None or not self._keeps_time:
            return False
        if 0 < state.cooldown_end <= step:
            return True
        return (
            self.seconds + self._time_left.seconds_to_finish(state, step)
            >= 60 * self._limit
        )

    def cooldown_steps(self, state: TrainingState) -> int:
        """Return how many steps a cooldown that begins now has; 0: it does not."""
        if self._limit is None or not self._keeps_time:
            return 0
        if not self._cooldown or state.cooldown_end:
            return 0
        limit = 60 * self._limit
        if self.seconds < (1 - self._cooldown) * limit:
            return 0
        return self._time_left.steps_within(limit - self.seconds, state)

    def overrun(self, state: TrainingState) -> str | None:
        """Return what to say before the last validation, if it will end too late."""
        if self._limit is None:
            return None
        limit = 60 * self._limit
        end = self.seconds + self._time_left.seconds_to_end(state, state.step)
        if end < limit + max(1.0, TOLERANCE * limit):
            return None
        return (
            f"the time limit of {duration(limit)} is exceeded: start-up, one step, a "
            "validation and a checkpoint are made in any case"
        )

    @property
    def reason(self) -> str:
        """Why training ends once the limit is reached."""
        return f"the time is over ({duration(60 * (self._limit or 0.0))})"

    def on_start(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Start the estimate of the time left."""
        self._time_left.on_start(state, settings, epoch_batches)

    def on_step(self, update: StepMetrics, state: TrainingState) -> None:
        """Note the time of a step."""
        self._time_left.on_step(update, state)

    def on_validation(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Note that the next pause was a validation."""
        self._time_left.on_validation()

    def on_message(self, text: str) -> None:
        """Ignore messages."""

    def on_end(self, state: TrainingState, reason: str) -> None:
        """Do nothing."""
