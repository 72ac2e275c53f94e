"""What every metric returns, and what it asks of its caller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.errors import UsageError


@dataclass(frozen=True, slots=True)
class Score:
    """A number with its name, and with all that it takes to compute it again."""

    name: str
    """What it is called in a report."""

    value: float
    """From 0 to 100 where the metric is a share; error rates can exceed 100."""

    signature: str
    """How it was computed: two values compare only where signatures are equal."""

    higher_is_better: bool
    """Whether a larger value means a better output."""

    interval: float | None = None
    """Half the width of the 95% confidence interval, where one was asked for."""

    def __str__(self) -> str:
        said = with_interval(self.value, self.interval, self.higher_is_better)
        return f"{self.name} {said}"


def value_range(higher_is_better: bool) -> tuple[float, float]:
    """Return what a measure cannot lie beyond; an error rate has no upper end."""
    return 0.0, 100.0 if higher_is_better else math.inf


def interval_ends(
    value: float, interval: float, higher_is_better: bool
) -> tuple[float, float]:
    """Return both ends of a confidence interval: resamples are no better than all."""
    least, most = value_range(higher_is_better)
    return max(least, value - interval), min(most, value + interval)


def with_interval(value: float, interval: float | None, higher_is_better: bool) -> str:
    """Write a value with its interval, by its ends where one of them is cut off."""
    if interval is None:
        return f"{value:.1f}"
    low, high = interval_ends(value, interval, higher_is_better)
    if value - interval < low or value + interval > high:
        return f"{value:.1f} ({low:.1f} to {high:.1f})"
    return f"{value:.1f} ± {interval:.1f}"


def check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse texts that cannot be compared line by line."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise UsageError(
            "hypotheses and references must be lists of texts, not one text; "
            "[text] holds one line"
        )
    if len(hypotheses) != len(references):
        raise UsageError(
            f"each hypothesis needs its reference: there are {len(hypotheses)} "
            f"hypotheses and {len(references)} references"
        )
    if not hypotheses:
        raise UsageError(
            "there is nothing to score: 0 hypotheses, 1 or more are needed"
        )
