"""Stopping rules: when the search of one sentence may end before its length limit.

A rule takes the scores of the completed hypotheses, and ``best_possible``, an upper
bound of the score that a hypothesis still alive can reach.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol


class StoppingRule(Protocol):
    """Decides whether the search of one sentence is done."""

    def __call__(
        self,
        scores: Sequence[float],
        best_possible: float,
        *,
        beam: int,
        num_best: int,
        patience: float = 1.0,
    ) -> bool:
        """Return True to stop."""
        ...


def first_k(
    scores: Sequence[float],
    best_possible: float,
    *,
    beam: int,
    num_best: int,
    patience: float = 1.0,
) -> bool:
    """Stop at ``beam * patience`` completed hypotheses, ``num_best`` at least.

    Kasai et al. (2022), A Call for Clarity in Beam Search: with a patience of 1 it is
    fast, and what other tools do by default (CTranslate2, and Hugging Face with
    early_stopping=True); with 2 it goes on until there are twice as many.
    """
    return len(scores) >= outputs_to_finish(beam, patience, num_best)


def outputs_to_finish(beam: int, patience: float, num_best: int = 1) -> int:
    """Return the number of completed hypotheses at which first-k stops.

    A beam of 1 is greedy search: there is no second hypothesis to wait for. Rounded up,
    except for rounding errors: 25 * 2.2 is 55.
    """
    target = 1 if beam == 1 else math.ceil(round(beam * patience, 6))
    return max(num_best, target)


def exact(
    scores: Sequence[float],
    best_possible: float,
    *,
    beam: int,
    num_best: int,
    patience: float = 1.0,
) -> bool:
    """Stop when no hypothesis still alive can enter the ``num_best`` best."""
    return len(scores) >= num_best and sorted(scores)[-num_best] >= best_possible


def never(
    scores: Sequence[float],
    best_possible: float,
    *,
    beam: int,
    num_best: int,
    patience: float = 1.0,
) -> bool:
    """Search to the length limit: finds what ``exact`` finds, in more time."""
    return False


STOPPING: dict[str, StoppingRule] = {
    "first-k": first_k,
    "exact": exact,
    "never": never,
}
