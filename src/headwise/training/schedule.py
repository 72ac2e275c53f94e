"""The learning rate of each update (Section 5.3). Updates are counted from 1."""

from __future__ import annotations

from collections.abc import Callable

from headwise.training.settings import ScheduleName, TrainingSettings


def paper_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """Return Equation 3: d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def inverse_root(step: int, warmup: int, last: int) -> float:
    """Rise straight, then fall with the root of the step: Equation 3, peak 1."""
    return float(min((warmup / step) ** 0.5, step / warmup))


def straight_down(step: int, warmup: int, last: int) -> float:
    """Rise straight, then fall straight, to reach 0 behind the last update."""
    rest = (last + 1 - step) / max(1, last + 1 - warmup)
    return float(max(0.0, min(step / warmup, rest)))


def level(step: int, warmup: int, last: int) -> float:
    """Rise straight, then stay."""
    return float(min(1.0, step / warmup))


SCHEDULES: dict[ScheduleName, Callable[[int, int, int], float]] = {
    "paper": inverse_root,
    "linear": straight_down,
    "constant": level,
}
"""Shape of each schedule, as a share of its peak: (step, warm-up, last step)."""


def learning_rate(step: int, settings: TrainingSettings, d_model: int) -> float:
    """Return the learning rate of update ``step``."""
    warmup = settings.warmup_steps
    peak = settings.learning_rate or paper_rate(warmup, d_model, warmup)
    return peak * SCHEDULES[settings.schedule](step, warmup, settings.num_steps)
