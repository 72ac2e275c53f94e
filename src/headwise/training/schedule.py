"""The learning-rate schedules (Section 5.3). Steps are counted from 1."""

from __future__ import annotations

import math
from collections.abc import Callable

from headwise.training.cooldown import cooldown_factor
from headwise.training.settings import ScheduleName, TrainingSettings
from headwise.training.state import TrainingState


def paper_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """Return Equation 3: d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def inverse_sqrt(step: int, warmup: int, last: int) -> float:
    """Linear warm-up, then inverse square root decay: Equation 3 with peak 1."""
    return float(min((warmup / step) ** 0.5, step / warmup))


def linear_decay(step: int, warmup: int, last: int) -> float:
    """Linear warm-up, then linear decay to 0 after the last step."""
    rest = (last + 1 - step) / max(1, last + 1 - warmup)
    return float(max(0.0, min(step / warmup, rest)))


def cosine(step: int, warmup: int, last: int) -> float:
    """Linear warm-up, then half a cosine that is 0 after the last step.

    (1 + cos(π · t)) / 2 with t = (step - warmup) / (last + 1 - warmup), which is
    Equation 5 of Loshchilov and Hutter (2017) with η_min = 0 and without restarts.
    """
    done = (step - warmup) / max(1, last + 1 - warmup)
    fall = (1 + math.cos(math.pi * min(1.0, max(0.0, done)))) / 2
    return float(min(step / warmup, fall))


def constant(step: int, warmup: int, last: int) -> float:
    """Linear warm-up, then constant."""
    return float(min(1.0, step / warmup))


SCHEDULES: dict[ScheduleName, Callable[[int, int, int], float]] = {
    "paper": inverse_sqrt,
    "linear": linear_decay,
    "cosine": cosine,
    "constant": constant,
}
"""Name -> (step, warm-up steps, last step) -> fraction of the peak rate."""


def learning_rate(
    step: int,
    settings: TrainingSettings,
    d_model: int,
    state: TrainingState | None = None,
) -> float:
    """Return the learning rate of ``step``; ``state`` is the one before it."""
    warmup = settings.warmup_steps
    peak = settings.learning_rate or paper_rate(warmup, d_model, warmup)
    planned = peak * SCHEDULES[settings.schedule](step, warmup, settings.num_steps)
    return planned * cooldown_factor(step, settings, state or TrainingState())
