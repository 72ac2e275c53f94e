"""From what length on self-attention takes longer than another layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from headwise.complexity.layers import LAYERS, LayerKind
from headwise.complexity.sizes import Sizes

ATTENTION = "self-attention"

PARTNERS = (
    *("Elman recurrence", "GRU", "LSTM", "convolution"),
    "projections of attention",
)
"""Layers that self-attention is compared with. Their cost grows with n, its with n²."""

TRIES = 6
CLOSE = 0.02
"""A ratio of times within 2% of 1 is a crossover."""

SLOPES = 0.5, 2.0
"""Limits of the exponent with which a ratio of times is expected to grow."""

SHORTEST = 2
"""The least length that is tried."""


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """The length at which self-attention takes as long as another layer."""

    other: str
    width: int
    predicted: float
    """By multiply-adds."""

    measured: float | None
    """By time; None if it lies beyond the lengths that were tried."""

    ratios: dict[int, float]
    """Length -> time of self-attention over that of the other layer."""


def predicted_length(other: LayerKind, sizes: Sizes) -> float:
    """Return the length at which both have as many multiply-adds.

    ``sizes`` at any length.
    """
    own = LAYERS[ATTENTION].multiply_adds(sizes)
    return sizes.length * other.multiply_adds(sizes) / own


def find_crossover(
    ratio_at: Callable[[int], float], start: float, longest: int
) -> tuple[float | None, dict[int, float]]:
    """Return the length at which ``ratio_at`` is 1, and the ratios that led there.

    The ratio grows with about the first power of the length, and from the second guess
    on with the power that the last two ratios tell. Between a ratio below and one above
    1 the length is interpolated, on logarithmic scales. None if it is beyond the
    lengths from ``SHORTEST`` to ``longest``.
    """
    ratios: dict[int, float] = {}
    length = _within_limits(start, longest)
    for _ in range(TRIES):
        if length in ratios:
            break
        ratios[length] = ratio_at(length)
        if abs(math.log(ratios[length])) < CLOSE:
            break
        length = _within_limits(_next_guess(ratios), longest)
    return _where_one(ratios, longest), dict(sorted(ratios.items()))


def _next_guess(ratios: dict[int, float]) -> float:
    (length, ratio), *earlier = reversed(ratios.items())
    slope = 1.0
    if earlier:
        other, its_ratio = earlier[0]
        slope = math.log(ratio / its_ratio) / math.log(length / other)
        slope = min(max(slope, SLOPES[0]), SLOPES[1])
    return float(length * math.exp(-math.log(ratio) / slope))


def _within_limits(length: float, longest: int) -> int:
    return min(longest, max(SHORTEST, round(length)))


def _where_one(ratios: dict[int, float], longest: int) -> float | None:
    nearest = min(ratios, key=lambda each: abs(math.log(ratios[each])))
    if abs(math.log(ratios[nearest])) < CLOSE:
        return float(nearest)
    below = [each for each, ratio in ratios.items() if ratio < 1]
    above = [each for each, ratio in ratios.items() if ratio > 1]
    if not below or not above:
        is_inside = SHORTEST < nearest / ratios[nearest] < longest
        return nearest / ratios[nearest] if is_inside else None
    low, high = max(below), min(above)
    share = -math.log(ratios[low]) / math.log(ratios[high] / ratios[low])
    return float(low * (high / low) ** share)
