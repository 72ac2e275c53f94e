"""What OpenNMT-py and Eole, which grew out of it, have alike: reports and sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from training.batches import Pairs
from training.facts import PAD, START


class Reports:
    """What their trainer tells after an update.

    ``statistics`` makes their counter, which holds the number of tokens as ``tokens``.
    """

    start_time = 0.0

    def __init__(
        self,
        done: Callable[[float], None],
        statistics: Callable[[], Any],
        *,
        tokens: str,
    ) -> None:
        self.done = done
        self.statistics = statistics
        self.tokens = tokens

    def report_training(
        self, step: int, steps: int, rate: float, patience: Any, stats: Any, **_: Any
    ) -> Any:
        """Report the mean loss, and begin to count anew."""
        self.done(stats.loss / getattr(stats, self.tokens))
        return self.statistics()

    def report_step(self, *facts: Any, **more: Any) -> None:
        """Do nothing: there is no validation."""


def sides(batch: Pairs) -> dict[str, torch.Tensor]:
    """Return source, its lengths, and the target with its start."""
    source = torch.from_numpy(batch.source)
    target = torch.from_numpy(batch.target)
    starts = target.new_full((len(target), 1), START)
    return {
        "src": source,
        "srclen": (source != PAD).sum(dim=1),
        "tgt": torch.cat([starts, target], dim=1),
    }
