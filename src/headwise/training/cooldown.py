"""The cooldown: the learning rate falls to 0 at the end of training.

The last part of training brings the rate down, and most of what a rate that was high
until then had left to gain is gained there (Hägele et al. 2024, "Scaling Laws and
Compute-Optimal Training Beyond Fixed Training Durations"). Where updates or epochs end
training, the first step of the cooldown is known beforehand, and schedules that fall to
0 by themselves have none; where time does, it is decided when that part of the time
begins, once, and kept in the state: so a run that was interrupted goes on with the same
rates. Where patience does (``training.on_plateau``), the step follows from the
validations so far, and is kept in the state as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.wording import count_of

DEFAULT_FRACTION = 0.2
"""Part of training, where ``training.cooldown`` is not set but time or patience is to
bring one; other parts were not measured yet."""


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
    is_limited = settings.max_minutes is not None
    return DEFAULT_FRACTION if is_limited or settings.on_plateau == "cooldown" else 0.0


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
    begun = None
    if state.cooldown_end:
        begun = Cooldown(state.cooldown_start, state.cooldown_end)
    found = (begun, cooldown_by_steps(settings))
    return min((each.factor(step) for each in found if each), default=1.0)


def begin_cooldown(
    state: TrainingState, steps: int, *, limit: float = 0.0
) -> TrainingState:
    """Return ``state`` with a cooldown of so many steps from the next one on.

    ``limit`` is the time limit that begins it, in seconds; 0: none does. Without steps
    there is none.
    """
    if not steps:
        return state
    return replace(
        state,
        cooldown_start=state.step + 1,
        cooldown_end=state.step + steps,
        cooldown_limit=limit,
    )


def plateau_cooldown(
    state: TrainingState, settings: TrainingSettings
) -> tuple[TrainingState, str | None]:
    """Return ``state`` with the cooldown that exhausted patience begins, and a message.

    None is the message if none begins.

    The cooldown is the part ``training.cooldown`` (c) of the training that ends with
    it: after n steps it has n · c / (1 - c), or what is left to ``training.steps``. One
    that is under way goes on instead. What is returned is a function of the arguments,
    and so the same in a resumed run.
    """
    left = settings.num_steps - state.step
    by_steps = cooldown_by_steps(settings)
    is_under_way = state.cooldown_end or (by_steps and state.step + 1 >= by_steps.first)
    if settings.on_plateau == "stop" or is_under_way or left < 1:
        return state, None
    if not state.has_exhausted(settings.patience):
        return state, None
    part = fraction(settings)
    count = min(left, max(1, round(state.step * part / (1 - part))))
    return replace(begin_cooldown(state, count), plateau_step=state.step), (
        f"{state.no_gain}: the learning rate falls to 0 over the last "
        f"{count_of(count, 'step')}"
    )


def resume_cooldown(state: TrainingState, settings: TrainingSettings) -> TrainingState:
    """Return ``state`` without its cooldown, if what began it holds no more.

    That is a later time limit, or more patience. A cooldown that is under way when the
    limit is raised goes on, unless the new one leaves time before it.
    """
    if state.plateau_step:
        ends = settings.on_plateau == "cooldown"
        holds = ends and state.has_exhausted(settings.patience)
    else:
        limit = 60 * (settings.max_minutes or float("inf"))
        is_over = state.step >= state.cooldown_end and state.cooldown_limit > 0
        holds = state.seconds >= (1 - fraction(settings)) * limit
        holds &= not (is_over and limit > state.cooldown_limit)
    if not state.cooldown_end or holds:
        return state
    return replace(
        state, cooldown_start=0, cooldown_end=0, cooldown_limit=0.0, plateau_step=0
    )
