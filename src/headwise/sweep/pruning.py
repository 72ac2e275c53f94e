"""Early stopping of trials that fall behind the others: the median rule.

A trial is stopped if its combination of settings is worse than the median of the other
combinations after as many updates. A combination counts by the mean, over its seeds, of
the best validation value up to there. So one bad seed of a good combination goes on,
and belongs to its mean.

Without seeds this is the rule of Golovin et al. (2017, "Google Vizier") as in Optuna's
``MedianPruner``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import mean, median

MIN_OTHERS = 3
"""Other combinations that must have come as far."""

MIN_SHARE = 0.25
"""Share of its updates, or of its time, that a trial has in any case."""


@dataclass
class Curve:
    """Validation values of one trial, by number of updates."""

    combination: str
    """The same for trials that differ in their seed alone."""

    points: list[tuple[int, float]] = field(default_factory=list)

    def add(self, step: int, value: float) -> None:
        """Add a validation; one that is repeated replaces what it repeats."""
        self.points = [each for each in self.points if each[0] < step]
        self.points.append((step, value))

    def best_until(self, step: int, *, lower_is_better: bool) -> float | None:
        """Return the best value of the first ``step`` updates.

        None if the trial has not come as far.
        """
        if not self.points or self.points[-1][0] < step:
            return None
        values = [value for at, value in self.points if at <= step]
        if not values:
            return None
        return min(values) if lower_is_better else max(values)


def falls_behind(own: Curve, curves: Iterable[Curve], *, lower_is_better: bool) -> bool:
    """Return whether the combination of ``own`` is worse than the median of the others.

    ``curves`` are those of all trials, with ``own``; they are compared after as many
    updates as ``own`` has.
    """
    if not own.points:
        return False
    step = own.points[-1][0]
    values: dict[str, list[float]] = {}
    for each in curves:
        best = each.best_until(step, lower_is_better=lower_is_better)
        if best is not None:
            values.setdefault(each.combination, []).append(best)
    ours = mean(values.pop(own.combination))
    if len(values) < MIN_OTHERS:
        return False
    middle = median(map(mean, values.values()))
    return ours > middle if lower_is_better else ours < middle


def is_warm(
    *,
    step: int,
    last_step: int,
    warmup_steps: int,
    minutes: float,
    max_minutes: float | None,
) -> bool:
    """Return whether a trial may be stopped: warm-up is over, and a quarter of it done.

    ``last_step`` is the number of updates that limits it, ``max_minutes`` the time.
    """
    share = step / max(1, last_step)
    if max_minutes is not None:
        share = max(share, minutes / max_minutes)
    return step >= warmup_steps and share >= MIN_SHARE
