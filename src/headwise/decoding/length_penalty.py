"""Length penalties and length limits.

Every further token makes an output less probable, so totals favour short outputs. The
score of an output with the total log probability T and the length n, END counted, is

    T / penalty(n) + reward * n

where usually one of the two has no effect: the penalty is 1, or the reward is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

LengthPenalty = Callable[[int], float]
"""Maps a length n, END counted, to the divisor of a total log probability.

It must not decrease with n: exact stopping relies on it.
"""


def power_penalty(length: int, alpha: float) -> float:
    """Return n^alpha, as CTranslate2 and Hugging Face do; 1 ranks by the mean."""
    return float(length**alpha)


def gnmt_penalty(length: int, alpha: float) -> float:
    """Return ((5 + n) / 6)^alpha, the paper's: Wu et al. (2016, GNMT), equation 14."""
    return float(((5 + length) / 6) ** alpha)


def no_penalty(length: int, alpha: float) -> float:
    """Return 1 for every length: outputs are ranked by their probability."""
    return 1.0


def word_reward(length: int, alpha: float) -> float:
    """Return 1: alpha is the reward added for each token, T + alpha * n.

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
"""The length penalties whose alpha is a reward for each token."""


def best_possible_score(
    total: float, length: int, limit: int, penalty: LengthPenalty, reward: float = 0.0
) -> float:
    """Return an upper bound of the score of any output that extends these tokens.

    ``total`` and ``length`` are those so far. The total can only fall, and as it is
    negative, the largest divisor is best: that of the longest output, which also has
    the largest reward.
    """
    longest = max(limit, length + 1)
    divisor = max(penalty(length + 1), penalty(longest))
    return total / divisor + max(reward * (length + 1), reward * longest)


def max_length(source_tokens: int, *, factor: float, offset: int) -> int:
    """Return floor(factor * source_tokens) + offset, the length limit of an output."""
    return math.floor(factor * source_tokens) + offset
