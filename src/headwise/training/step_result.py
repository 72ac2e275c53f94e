"""The result of one optimizer step, whose numbers may still be on the GPU.

Reading a scalar synchronises the stream and leaves the GPU idle. So the metrics of a
step are read one step late, and until then the GPU itself skips a step whose loss or
gradient norm is not finite (``found_inf``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headwise.data.ragged_batch import Batch
from headwise.training.callbacks import StepMetrics

Scalar = float | Tensor
"""A number on the host, or a tensor of one number on the device."""


@dataclass(frozen=True, slots=True)
class SummedLoss:
    """Sums over target tokens, in nats."""

    loss: Scalar
    """The loss without a divergence: the cross-entropy."""

    kl_divergence: float = 0.0
    """The divergence between two passes or from teachers, before its weight."""

    def __add__(self, other: SummedLoss) -> SummedLoss:
        """Add the sums of other tokens."""
        return SummedLoss(
            self.loss + other.loss, self.kl_divergence + other.kl_divergence
        )


@dataclass(frozen=True, kw_only=True)
class PendingStep:
    """One optimizer step, whose loss and gradient norm are read when asked for."""

    step: int
    loss: Scalar
    """Sum over the target tokens of the step, in nats."""

    gradient_norm: Scalar
    batches: Sequence[tuple[int, Batch]]
    """This rank's batches, each with its index within the step."""

    num_targets: int
    """Target tokens of the step, over all ranks."""

    tokens: int
    """Source and target tokens of the step, over all ranks, without padding."""

    learning_rate: float
    started: float
    """``time.monotonic()`` at the start of the step."""

    kl_divergence: float | None = None
    """That of :class:`SummedLoss`; None without a divergence."""

    def __post_init__(self) -> None:
        if isinstance(self.loss, Tensor) and isinstance(self.gradient_norm, Tensor):
            both = torch.stack([self.loss, self.gradient_norm])
            self.__dict__["_async_copy"] = _AsyncCopy(both)

    @cached_property
    def loss_and_norm(self) -> tuple[float, float]:
        """The summed loss and the gradient norm; waits for the device."""
        copy = self.__dict__.get("_async_copy")
        if copy is not None:
            loss, norm = copy.wait()
            return loss, norm
        return float(self.loss), float(self.gradient_norm)

    @property
    def is_finite(self) -> bool:
        """Whether loss and gradient norm are finite; waits for the device."""
        return all(map(math.isfinite, self.loss_and_norm))

    def found_inf(self) -> Tensor | None:
        """Return a flag on the device, 1.0 if the loss or the norm is not finite.

        None if both are on the host, where :attr:`is_finite` was checked already.
        """
        if isinstance(self.loss, Tensor):
            return (~torch.isfinite(self.loss + self.gradient_norm)).float()
        return None

    def to_metrics(self, *, since: float) -> StepMetrics:
        """Return the metrics; time is counted from the later of start and ``since``."""
        loss, norm = self.loss_and_norm
        kl = self.kl_divergence
        return StepMetrics(
            step=self.step,
            loss=loss / self.num_targets,
            kl_divergence=None if kl is None else kl / self.num_targets,
            learning_rate=self.learning_rate,
            gradient_norm=norm,
            tokens=self.tokens,
            seconds=time.monotonic() - max(self.started, since),
        )


class _AsyncCopy:
    """A copy of ``numbers`` to pinned host memory that does not block the stream."""

    def __init__(self, numbers: Tensor) -> None:
        self._host = numbers
        self._event: torch.cuda.Event | None = None
        if numbers.is_cuda:
            self._host = torch.empty_like(numbers, device="cpu", pin_memory=True)
            self._host.copy_(numbers, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record()

    def wait(self) -> list[float]:
        """Wait for the copy and return the numbers."""
        if self._event is not None:
            self._event.synchronize()
        found: list[float] = self._host.tolist()
        return found
