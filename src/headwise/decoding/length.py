"""How length counts: what a total log probability is divided by, and the limit.

Every further token makes an output less probable, so totals favour short outputs. A
penalty takes a length n, END counted, to the number that the total is divided by.
"""

from __future__ import annotations

import math
from collections.abc import Callable

LengthPenalty = Callable[[int], float]
"""From a length n, END counted, to the divisor of a total log probability."""


def power_penalty(length: int, alpha: float) -> float:
    """Return n^alpha, as CTranslate2 and Hugging Face do; 1 ranks by the mean."""
    return float(length**alpha)


def gnmt_penalty(length: int, alpha: float) -> float:
    """Return ((5 + n) / 6)^alpha, the paper's: Wu et al. (2016, GNMT), equation 14."""
    return float(((5 + length) / 6) ** alpha)


def no_penalty(length: int, alpha: float) -> float:
    """Return 1 whatever the length: outputs are ranked by their probability."""
    return 1.0


LENGTH_PENALTIES: dict[str, Callable[[int, float], float]] = {
    "n^alpha": power_penalty,
    "gnmt": gnmt_penalty,
    "none": no_penalty,
}


def max_length(source_tokens: int, *, factor: float, offset: int) -> int:
    """Return floor(factor * source_tokens) + offset: the tokens an output may have."""
    return math.floor(factor * source_tokens) + offset
