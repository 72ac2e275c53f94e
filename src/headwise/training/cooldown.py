"""The cooldown: the learning rate falls to 0 at the end of training.

Whatever the schedule, the last part of training brings the rate down, and most of what
a rate that was high until then had left to gain is gained there (Hägele et al. 2024,
"Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations"). Where
updates or epochs end training, the first step of the cooldown is known beforehand;
where time does, it is decided when that part of the time begins, once, and kept in the
state: so a run that was interrupted goes on with the same rates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState

OF_TIME = 0.2
"""Part of a time limit, where ``training.cooldown`` is not set; other parts were not
measured yet."""


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Steps ``first`` to ``last``."""

    first: int
    last: int

    def factor(self, step: int) -> float:
        """Return what the rate of ``step`` is multiplied by: 1 - sqrt, from 1 to 0."""
        done = (step - self.first + 1) / (self.last - self.first + 2)
        return float(1 - min(1.0, max(0.0, done)) ** 0.5)


def fraction(settings: TrainingSettings) -> float:
    """Return the part of training that is its cooldown."""
    if settings.cooldown is not None:
        return settings.cooldown
    return 0.0 if settings.max_minutes is None else OF_TIME


def cooldown_by_steps(settings: TrainingSettings) -> Cooldown | None:
    """Return the cooldown before the last step of the settings, if there is one.

    Schedules that fall to 0 all the way have none.
    """
    last = settings.num_steps
    count = round(fraction(settings) * last)
    if settings.falls_to_zero or not count:
        return None
    return Cooldown(last - count + 1, last)


def cooldown_factor(
    step: int, settings: TrainingSettings, state: TrainingState
) -> float:
    """Return what the learning rate of ``step`` is multiplied by, 0 to 1."""
    by_time = None
    if state.cooldown_end:
        by_time = Cooldown(state.cooldown_start, state.cooldown_end)
    found = (by_time, cooldown_by_steps(settings))
    return min((each.factor(step) for each in found if each), default=1.0)


def begin_cooldown(state: TrainingState, steps: int) -> TrainingState:
    """Return ``state`` with a cooldown of so many steps from the next one on."""
    first = state.step + 1
    return replace(state, cooldown_start=first, cooldown_end=state.step + steps)


def resume_cooldown(state: TrainingState, settings: TrainingSettings) -> TrainingState:
    """Return ``state`` without its cooldown, if the time limit is a later one now."""
    limit = 60 * (settings.max_minutes or float("inf"))
    if not state.cooldown_end or state.seconds >= (1 - fraction(settings)) * limit:
        return state
    return replace(state, cooldown_start=0, cooldown_end=0)
