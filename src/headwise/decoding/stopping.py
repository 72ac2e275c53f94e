"""When the search over one sentence may end before its length limit.

A rule takes the scores found and the best score that can still be reached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol


class StoppingRule(Protocol):
    """Says whether the search over one sentence is done."""

    def __call__(
        self,
        found: Sequence[float],
        hope: float,
        *,
        beam: int,
        num_best: int,
        patience: float = 1.0,
    ) -> bool:
        """Return True to stop."""
        ...


def first_k(
    found: Sequence[float],
    hope: float,
    *,
    beam: int,
    num_best: int,
    patience: float = 1.0,
) -> bool:
    """Stop at ``beam * patience`` hypotheses, and no fewer than are asked for.

    Kasai et al. (2022), A Call for Clarity in Beam Search: with a patience of 1 it is
    fast, and what other tools do by default (CTranslate2, and Hugging Face with
    early_stopping=True); with 2 it goes on until there are twice as many.
    """
    return len(found) >= outputs_to_finish(beam, patience, num_best)


def outputs_to_finish(beam: int, patience: float, num_best: int = 1) -> int:
    """Return the number of finished hypotheses at which first-k stops.

    A beam of 1 is greedy search: there is no second hypothesis to wait for. Rounded up,
    but not for the last bits of a product: 25 * 2.2 is 55.
    """
    wanted = 1 if beam == 1 else math.ceil(round(beam * patience, 6))
    return max(num_best, wanted)


def exact(
    found: Sequence[float],
    hope: float,
    *,
    beam: int,
    num_best: int,
    patience: float = 1.0,
) -> bool:
    """Stop when nothing still being written can enter the ``num_best`` best."""
    return len(found) >= num_best and sorted(found)[-num_best] >= hope


def never(
    found: Sequence[float],
    hope: float,
    *,
    beam: int,
    num_best: int,
    patience: float = 1.0,
) -> bool:
    """Go on to the length limit: what ``exact`` finds, for more time."""
    return False


STOPPING: dict[str, StoppingRule] = {
    "first-k": first_k,
    "exact": exact,
    "never": never,
}
