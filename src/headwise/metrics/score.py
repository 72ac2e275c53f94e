"""The result of a metric: value, signature, confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.errors import UsageError


@dataclass(frozen=True, slots=True)
class Score:
    """A score with its name and signature."""

    name: str
    """Name in reports."""

    value: float
    """From 0 to 100; error rates can exceed 100, a correlation can be negative, and an
    error in the unit of labels has a scale of its own."""

    signature: str
    """How it was computed: only scores with equal signatures are comparable."""

    higher_is_better: bool
    """Whether a larger value means a better output."""

    interval: float | None = None
    """Half the width of the 95% confidence interval, if computed."""

    def __str__(self) -> str:
        value = with_interval(self.value, self.interval, self.higher_is_better)
        return f"{self.name} {value}"


def value_range(higher_is_better: bool) -> tuple[float, float]:
    """Return the smallest and largest value of a share or an error rate.

    Error rates are unbounded. A correlation, which has no interval, may be negative.
    """
    return 0.0, 100.0 if higher_is_better else math.inf


def interval_ends(
    value: float, interval: float, higher_is_better: bool
) -> tuple[float, float]:
    """Return both ends of a confidence interval of a share or an error rate."""
    least, most = value_range(higher_is_better)
    return max(least, value - interval), min(most, value + interval)


def formatted(value: float, higher_is_better: bool, *, decimals: int = 1) -> str:
    """Format a value with so many decimals, a small error with 3 significant digits."""
    is_small_error = not higher_is_better and value < 10
    return f"{value:.3g}" if is_small_error else f"{value:.{decimals}f}"


def with_interval(value: float, interval: float | None, higher_is_better: bool) -> str:
    """Format a value with its interval: ``±``, or both ends if one is clipped."""
    if interval is None:
        return formatted(value, higher_is_better)
    low, high = interval_ends(value, interval, higher_is_better)
    if value - interval < low or value + interval > high:
        return f"{value:.1f} ({low:.1f} to {high:.1f})"
    return f"{value:.1f} ± {interval:.1f}"


def check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raise ``UsageError`` unless both are lists of equal length, not empty."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise UsageError(
            "hypotheses and references must be lists of texts, not one text; use "
            "[text] for one line"
        )
    if len(hypotheses) != len(references):
        raise UsageError(
            f"each hypothesis needs a reference: there are {len(hypotheses)} "
            f"hypotheses and {len(references)} references"
        )
    if not hypotheses:
        raise UsageError("there is nothing to score: 0 hypotheses")
