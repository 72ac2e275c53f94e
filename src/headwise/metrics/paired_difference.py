"""Student's t interval of paired differences, such as over seeds or sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

CONFIDENCE = 0.95

HALVINGS = 80
"""Steps of the bisection that inverts the distribution: down to rounding errors."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of paired differences, with its interval."""

    mean: float
    pairs: int
    """Number of pairs, such as the seeds that both have (n)."""

    low: float | None
    """Lower end of the 95% interval; None of a single pair, which has none."""

    high: float | None


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Return the mean of ``ours - theirs`` with its t interval of n - 1 degrees.

    Both are of the same seeds, or sentences, in the same order, at least one. The
    interval supposes that their mean difference is normally distributed.
    """
    differences = [one - other for one, other in zip(ours, theirs, strict=True)]
    middle, n = mean(differences), len(differences)
    if n == 1:
        return Difference(middle, 1, None, None)
    reach = t_quantile(n - 1) * stdev(differences) / math.sqrt(n)
    return Difference(middle, n, middle - reach, middle + reach)


def t_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return t such that a share ``confidence`` of Student's t is within ± t.

    ``degrees`` of freedom: 1 or more.
    """
    low, high = 0.0, 1.0
    while t_within(high, degrees) < confidence:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if t_within(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def t_within(t: float, degrees: int) -> float:
    """Return P(-t < T < t) of Student's t distribution.

    Abramowitz and Stegun (1964), equations 26.7.3 and 26.7.4, exact for whole
    ``degrees``.
    """
    angle = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(angle)
    is_odd = degrees % 2
    total = 0.0
    term = cosine if is_odd else 1.0
    for k in range(2 + is_odd, degrees + 1, 2):
        total += term
        term *= cosine**2 * (k - 1) / k
    series = math.sin(angle) * total
    return 2 / math.pi * (angle + series) if is_odd else series
