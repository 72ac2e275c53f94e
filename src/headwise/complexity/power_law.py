"""Power laws: the exponent of a cost in a size, with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from headwise.metrics.paired_difference import t_quantile


@dataclass(frozen=True)
class PowerLaw:
    """y = factor · x^exponent, fitted by least squares of logarithms."""

    exponent: float
    low: float
    high: float
    """Ends of the 95% interval of the exponent (Student's t, points - 2 degrees)."""

    factor: float
    r_squared: float
    """Share of the variance of ln y that the law explains; 1 where y is constant."""

    def __call__(self, x: float) -> float:
        """Return y."""
        return float(self.factor * x**self.exponent)


def fit_power_law(xs: Sequence[float], ys: Sequence[float]) -> PowerLaw:
    """Fit a power law to at least three points; all numbers must be above 0."""
    if len(xs) < 3 or min(*xs, *ys) <= 0 or len(set(xs)) < 2:
        raise ValueError(
            "a power law is fitted to at least three points above 0, at two sizes or "
            f"more, not to x = {list(xs)}, y = {list(ys)}"
        )
    logs = [(math.log(x), math.log(y)) for x, y in zip(xs, ys, strict=True)]
    mean_x, mean_y = fmean(x for x, _ in logs), fmean(y for _, y in logs)
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    exponent = sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread
    offset = mean_y - exponent * mean_x
    errors = sum((y - offset - exponent * x) ** 2 for x, y in logs)
    total = sum((y - mean_y) ** 2 for _, y in logs)
    degrees = len(logs) - 2
    reach = t_quantile(degrees) * math.sqrt(errors / degrees / spread)
    return PowerLaw(
        exponent=exponent,
        low=exponent - reach,
        high=exponent + reach,
        factor=math.exp(offset),
        r_squared=1 - errors / total if total > 1e-24 else 1.0,
    )
