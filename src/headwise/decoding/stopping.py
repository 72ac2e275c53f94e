"""When the search over one sentence may end before its length limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def first_k(found: Sequence[float], hope: float, *, beam: int, num_best: int) -> bool:
    """Stop at ``beam`` hypotheses: fast, and what other tools do by default.

    CTranslate2 has this rule with patience 1, Hugging Face with early_stopping=True.
    """
    return len(found) >= beam


def exact(found: Sequence[float], hope: float, *, beam: int, num_best: int) -> bool:
    """Stop when nothing still being written can enter the ``num_best`` best."""
    return len(found) >= num_best and sorted(found)[-num_best] >= hope


StoppingRule = Callable[..., bool]
"""Takes the scores found and the best score that can still be reached."""

STOPPING: dict[str, StoppingRule] = {"first-k": first_k, "exact": exact}
