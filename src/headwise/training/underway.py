"""An update whose numbers may still be on their way from a GPU.

To ask a GPU for a number is to wait until it has done all it was told, and then it
idles while it is told what comes next. So what an update found is asked for when the
next one is under way; until then the GPU itself leaves weights alone if a number is not
finite.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headwise.data.batches import Batch
from headwise.training.callbacks import StepMetrics

Amount = float | Tensor
"""A number, or where a GPU will put it."""


@dataclass(frozen=True, kw_only=True)
class Underway:
    """One update, and what is told of it once its numbers are there."""

    step: int
    loss: Amount
    """Summed over the target tokens."""

    gradient_norm: Amount
    batches: Sequence[tuple[int, Batch]]
    num_targets: int
    tokens: int
    learning_rate: float
    started: float

    def __post_init__(self) -> None:
        if isinstance(self.loss, Tensor) and isinstance(self.gradient_norm, Tensor):
            both = torch.stack([self.loss, self.gradient_norm])
            self.__dict__["_journey"] = _Journey(both)

    @cached_property
    def numbers(self) -> tuple[float, float]:
        """The loss and the length of the gradient; they are waited for."""
        journey = self.__dict__.get("_journey")
        if journey is not None:
            loss, norm = journey.arrived()
            return loss, norm
        return float(self.loss), float(self.gradient_norm)

    @property
    def is_finite(self) -> bool:
        """Whether weights may follow the gradient."""
        return all(map(math.isfinite, self.numbers))

    def is_not_finite(self) -> Tensor | None:
        """Return 1 or 0 on the GPU, if nobody else knows; None where all is known."""
        if isinstance(self.loss, Tensor):
            return (~torch.isfinite(self.loss + self.gradient_norm)).float()
        return None

    def told(self, *, since: float) -> StepMetrics:
        """Tell of it; the time before ``since`` went into others."""
        loss, norm = self.numbers
        return StepMetrics(
            step=self.step,
            loss=loss / self.num_targets,
            learning_rate=self.learning_rate,
            gradient_norm=norm,
            tokens=self.tokens,
            seconds=time.monotonic() - max(self.started, since),
        )


class _Journey:
    """Numbers that a GPU sends once it has them, whatever it is told meanwhile."""

    def __init__(self, numbers: Tensor) -> None:
        self._here = numbers
        self._event: torch.cuda.Event | None = None
        if numbers.is_cuda:
            self._here = torch.empty_like(numbers, device="cpu", pin_memory=True)
            self._here.copy_(numbers, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record()

    def arrived(self) -> list[float]:
        """Wait for them."""
        if self._event is not None:
            self._event.synchronize()
        found: list[float] = self._here.tolist()
        return found
