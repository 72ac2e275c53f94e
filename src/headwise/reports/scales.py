"""Axes of plots: positions of values, ticks and their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Round numbers for the distance between ticks."""

MIN_RELATIVE_RANGE = 1e-9
"""A smaller range of values, relative to their size, is drawn as one value."""

MIN_LOG = 1e-30
"""Smallest value on a logarithmic axis."""

WITHIN_A_DECADE: dict[int, tuple[float, ...]] = {
    1: (1, 1.5, 2, 3, 4, 5, 6, 8),
    2: (1, 2, 5),
    4: (1, 3),
}
"""Ticks per decade of a logarithmic axis, by its number of decades."""


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from ``low`` to ``high``, logarithmic or not."""

    low: float
    high: float
    log: bool = False

    def position(self, value: float) -> float:
        """Return the position of ``value``: 0 at the low end, 1 at the high end."""
        low, high, value = self._transform(self.low), self._transform(self.high), value
        share = (self._transform(value) - low) / (high - low)
        return min(1.0, max(0.0, share))

    def across(self, value: float) -> str:
        """Return how far to the right of an SVG ``value`` is, as a percentage."""
        return f"{100 * self.position(value):.2f}%"

    def down(self, value: float) -> str:
        """Return how far below the top of an SVG ``value`` is, as a percentage."""
        return f"{100 * (1 - self.position(value)):.2f}%"

    def ticks(self, about: int = 5) -> list[float]:
        """Return round values between the ends, ``about`` as many."""
        return self._log_ticks(about) if self.log else self._even_ticks(about)

    def _transform(self, value: float) -> float:
        if not self.log:
            return value
        return math.log10(max(value, self.low))

    def _even_ticks(self, about: int) -> list[float]:
        rough = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(rough))
        apart = next(each * power for each in ROUND if each * power >= rough * 0.999)
        first, last = math.ceil(self.low / apart), math.floor(self.high / apart)
        return [float(f"{number * apart:.12g}") for number in range(first, last + 1)]

    def _log_ticks(self, about: int) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        decades = math.log10(self.high / self.low)
        for most, within in WITHIN_A_DECADE.items():
            if decades <= most:
                values = [
                    w * 10.0**power for power in range(first, last) for w in within
                ]
                break
        else:
            every = max(1, math.ceil((last - first) / about))
            values = [10.0**power for power in range(first, last + 1, every)]
        inside = [each for each in values if self.low <= each <= self.high]
        return inside if len(inside) > 1 else self._even_ticks(about)


def scale_for(
    values: Iterable[float],
    *,
    log: bool = False,
    from_zero: bool = False,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> Scale:
    """Return an axis that holds all ``values``, with a margin if ``within`` allows it.

    Values outside ``within`` are held too.
    """
    least = MIN_LOG if log else -math.inf
    known = [each for each in values if math.isfinite(each) and each >= least]
    if not known:
        return Scale(0.0, 1.0)
    low, high = min(known), max(known)
    if log:
        spare = (high / low) ** 0.04 if high > low else 1.25
        return Scale(low / spare, high * spare, log=True)
    if from_zero:
        low = min(0.0, low)
    size = max(abs(low), abs(high))
    room = 0.04 * (high - low) if high - low > MIN_RELATIVE_RANGE * size else 0.1 * size
    room = room if room > MIN_RELATIVE_RANGE else 1.0
    return Scale(
        max(min(within[0], low), low if from_zero and low == 0 else low - room),
        min(max(within[1], high), high + room),
    )


def format_value(value: float) -> str:
    """Format a value for an axis, in few characters."""
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    if size >= 1e6:
        return f"{value / 1e6:.4g} M"
    if size >= 1e5:
        return f"{value / 1e3:.4g} k"
    if size >= 1:
        return f"{value:,.4g}" if size < 1000 else f"{value:,.0f}"
    if size >= 1e-3:
        return f"{value:.4g}"
    digits, _, power = f"{value:.2e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
