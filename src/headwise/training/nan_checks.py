"""NaN and Inf detection, and divergence warnings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from headwise.errors import NumericsError
from headwise.training.callbacks import StepMetrics
from headwise.training.step_result import PendingStep

MAX_SKIPPED_IN_A_ROW = 20
"""Skipped updates in a row that end a run: the weights must be at fault."""


def first_non_finite(model: nn.Module, loss: Callable[[], Tensor]) -> str | None:
    """Name the first NaN or infinite tensor of a forward and backward pass.

    ``loss`` runs the forward pass. Weights are checked first, then the outputs of
    modules, the loss, and gradients. Returns None if all are finite.
    """
    for name, weight in model.named_parameters():
        if not _is_finite(weight):
            return f"the weight {name}"
    found: list[str] = []

    def check_output_of(name: str) -> Callable[..., None]:
        def check(module: nn.Module, inputs: Any, output: Any) -> None:
            if not found and isinstance(output, Tensor) and not _is_finite(output):
                found.append(f"the output of {name}")

        return check

    hooks = [
        module.register_forward_hook(check_output_of(name))
        for name, module in model.named_modules()
        if name
    ]
    try:
        value = loss()
    finally:
        for hook in hooks:
            hook.remove()
    if found:
        return found[0]
    if not _is_finite(value):
        return "the loss"
    model.zero_grad()
    value.backward()  # type: ignore[no-untyped-call]
    # The backward pass begins at the output.
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not _is_finite(parameter.grad):
            return f"the gradient of {name}"
    return None


def non_finite_message(
    update: PendingStep, found: Sequence[str], skips: bool, in_a_row: int
) -> str:
    """Return the message about a non-finite update; raise it if the run must end.

    ``found`` names the first non-finite tensor of each rank. Raises ``NumericsError``
    unless the update may be skipped: ``skips``, and not too many ``in_a_row``.
    """
    loss, norm = update.loss_and_norm
    text = (
        f"update {update.step} has loss {loss} and a gradient of length {norm}; no "
        f"weight was changed. {'; '.join(found) or 'Each batch alone is finite'}"
    )
    if skips and in_a_row < MAX_SKIPPED_IN_A_ROW:
        return f"{text}. The update is skipped"
    so_often = f". There were {in_a_row} such updates in a row" if in_a_row > 1 else ""
    raise NumericsError(
        f"{text}{so_often}. A lower training.learning_rate, a longer "
        "training.warmup_steps or training.clip_norm = 1.0 would help; "
        "training.not_finite = 'skip' passes over it; the last checkpoint is whole"
    )


def check_finite(weights: Mapping[str, Tensor], step: int) -> None:
    """Raise ``NumericsError`` if a weight is NaN or infinite: it must not be saved."""
    for name, weight in weights.items():
        if not _is_finite(weight):
            raise NumericsError(
                f"the weight {name} is not finite after update {step}, so it is not "
                "saved. A lower training.learning_rate, a longer training.warmup_steps "
                "or training.clip_norm = 1.0 would help; the last checkpoint is whole"
            )


def _is_finite(tensor: Tensor) -> bool:
    return bool(tensor.detach().isfinite().all())


class DivergenceDetector:
    """Warns if the smoothed loss rises and stays up.

    The loss is smoothed by a bias-corrected exponential moving average.
    """

    SMOOTHING = 0.98
    """Decay of the average: about 50 updates."""

    MIN_UPDATES = 50
    """Updates before the first warning."""

    MIN_RISE = 0.5
    """Nats above the lowest smoothed loss."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._weight = 0.0
        self._updates = 0
        self._lowest = math.inf
        self._lowest_step = 0
        self._warned = False

    def warning_after(self, update: StepMetrics) -> str | None:
        """Return a warning if training diverges at this update; once per rise."""
        self._updates += 1
        self._sum = self.SMOOTHING * self._sum + (1 - self.SMOOTHING) * update.loss
        self._weight = self.SMOOTHING * self._weight + 1 - self.SMOOTHING
        smooth = self._sum / self._weight
        if self._updates < self.MIN_UPDATES:
            return None
        if smooth < self._lowest:
            self._lowest, self._lowest_step = smooth, update.step
            self._warned = False
        if self._warned or smooth < self._lowest + self.MIN_RISE:
            return None
        self._warned = True
        return (
            f"training diverges: the loss was {self._lowest:.2f} around update "
            f"{self._lowest_step:,} and is {smooth:.2f} now, at a learning rate of "
            f"{update.learning_rate:.2g} and a gradient of length "
            f"{update.gradient_norm:.3g}. If it does not come down again, begin anew "
            "in another folder with a lower training.learning_rate, a longer "
            "training.warmup_steps or training.clip_norm = 1.0; the best model so far "
            "stays as it is"
        )
