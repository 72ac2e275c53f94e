"""How length counts: what a total log probability is divided by, and the limits.

Every further token makes an output less probable, so totals favour short outputs. The
score of an output with the total T and the length n, END counted, is

    T / penalty(n) + reward * n

where one of the two is usually left alone: the penalty at 1, or the reward at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

LengthPenalty = Callable[[int], float]
"""From a length n, END counted, to the divisor of a total log probability.

It must not fall as n grows: exact stopping relies on it.
"""


def power_penalty(length: int, alpha: float) -> float:
    """Return n^alpha, as CTranslate2 and Hugging Face do; 1 ranks by the mean."""
    return float(length**alpha)


def gnmt_penalty(length: int, alpha: float) -> float:
    """Return ((5 + n) / 6)^alpha, the paper's: Wu et al. (2016, GNMT), equation 14."""
    return float(((5 + length) / 6) ** alpha)


def no_penalty(length: int, alpha: float) -> float:
    """Return 1 whatever the length: outputs are ranked by their probability."""
    return 1.0


def word_reward(length: int, alpha: float) -> float:
    """Return 1: alpha is added for each token instead, T + alpha * n.

    He et al. (2016), Improved Neural Machine Translation with SMT Features.
    """
    return 1.0


LENGTH_PENALTIES: dict[str, Callable[[int, float], float]] = {
    "n^alpha": power_penalty,
    "gnmt": gnmt_penalty,
    "none": no_penalty,
    "word-reward": word_reward,
}

REWARDS = frozenset({"word-reward"})
"""Those whose alpha is added for each token."""


def best_to_come(
    total: float, length: int, limit: int, penalty: LengthPenalty, reward: float = 0.0
) -> float:
    """Return the best score that an output of ``length`` tokens so far may still get.

    Its total can only fall. Being below 0, it weighs least under the largest divisor,
    which is the one of the longest output, as the reward is.
    """
    longest = max(limit, length + 1)
    divisor = max(penalty(length + 1), penalty(longest))
    return total / divisor + max(reward * (length + 1), reward * longest)


def max_length(source_tokens: int, *, factor: float, offset: int) -> int:
    """Return floor(factor * source_tokens) + offset: the tokens an output may have."""
    return math.floor(factor * source_tokens) + offset
