"""What every metric returns, and what it asks of its caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwise.errors import UsageError


@dataclass(frozen=True, slots=True)
class Score:
    """A number with its name, and with all that it takes to compute it again."""

    name: str
    """What it is called in a report."""

    value: float
    """From 0 to 100 where the metric is a share; error rates can exceed 100."""

    signature: str
    """How it was computed: two values compare only where signatures are equal."""

    higher_is_better: bool
    """Whether a larger value means a better output."""

    interval: float | None = None
    """Half the width of the 95% confidence interval, where one was asked for."""

    def __str__(self) -> str:
        spread = "" if self.interval is None else f" ± {self.interval:.1f}"
        return f"{self.name} {self.value:.1f}{spread}"


def check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse texts that cannot be compared line by line."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise UsageError(
            "hypotheses and references must be lists of texts, not one text; "
            "[text] holds one line"
        )
    if len(hypotheses) != len(references):
        raise UsageError(
            f"each hypothesis needs its reference: there are {len(hypotheses)} "
            f"hypotheses and {len(references)} references"
        )
    if not hypotheses:
        raise UsageError(
            "there is nothing to score: 0 hypotheses, 1 or more are needed"
        )
