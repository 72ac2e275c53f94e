"""The sign-flip test of paired differences, and Holm's correction for many tests.

If neither of two conditions has an effect, a difference between them could as well have
the other sign: the p-value is the share of all choices of signs whose mean is at least
as far from 0 as the mean that was found (Fisher 1935, The Design of Experiments).

Letters used for sizes: N paired differences, T tests, S choices of signs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

EXACT = 16
"""All 2^N choices of signs are tried up to so many differences."""

RESAMPLES = 100_000
"""Choices that are drawn of more differences; the smallest p-value is 1 over it."""

AT_ONCE = 10_000
ROUNDING = 1e-9
"""Means that differ by less, relative to the largest possible one, count as equal."""


def sign_flip_test(
    differences: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = 1
) -> NDArray[np.float64]:
    """Return the two-sided p-values [T] of the means of differences [N T].

    All choices of signs are tried if N is at most ``EXACT``, and else ``resamples``
    random ones, with that of the data among them. Raises ``ValueError`` without
    differences.
    """
    number, tests = differences.shape
    if not number:
        raise ValueError("there are no differences to test")
    found = np.abs(differences.sum(axis=0))
    threshold = found - ROUNDING * np.abs(differences).sum(axis=0)
    at_least = np.zeros(tests)
    if number <= EXACT:
        codes = np.arange(2**number)[:, None] >> np.arange(number) & 1
        at_least += (np.abs((1 - 2 * codes) @ differences) >= threshold).sum(axis=0)
        return np.asarray(at_least / 2**number)
    rng = np.random.default_rng(seed)
    for first in range(0, resamples, AT_ONCE):
        count = min(AT_ONCE, resamples - first)
        signs = 1.0 - 2 * rng.integers(0, 2, size=(count, number))
        at_least += (np.abs(signs @ differences) >= threshold).sum(axis=0)
    return np.asarray((at_least + 1) / (resamples + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number (Holm 1979), in the same order.

    Those of at most α may all be called significant: a wrong one is among them with a
    probability of at most α, however the tests depend on each other.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, (len(p_values) - rank) * p_values[index])
        adjusted[index] = min(1.0, largest)
    return adjusted
