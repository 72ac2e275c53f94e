"""Numbers that are none: where they first arose, and when the loss runs away."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from headwise.errors import NumericsError
from headwise.training.callbacks import StepMetrics
from headwise.training.step_result import PendingStep

MOST_SKIPPED = 20
"""Updates skipped one after the other, after which the weights must be at fault."""


def first_not_finite(model: nn.Module, loss: Callable[[], Tensor]) -> str | None:
    """Name the first tensor that is not finite on the way up and back down.

    ``loss`` computes the loss of a batch anew. None means that all was well.
    """
    for name, weight in model.named_parameters():
        if not _is_finite(weight):
            return f"the weight {name}"
    found: list[str] = []

    def watched(name: str) -> Callable[..., None]:
        def look(module: nn.Module, inputs: Any, output: Any) -> None:
            if not found and isinstance(output, Tensor) and not _is_finite(output):
                found.append(f"the output of {name}")

        return look

    hooks = [
        module.register_forward_hook(watched(name))
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
    # The way back begins at the top.
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not _is_finite(parameter.grad):
            return f"the gradient of {name}"
    return None


def passed_over(
    update: PendingStep, found: Sequence[str], skips: bool, in_a_row: int
) -> str:
    """Say where a number first was none; raise if that is to end the run."""
    loss, norm = update.loss_and_norm
    text = (
        f"update {update.step} has loss {loss} and a gradient of length {norm}; no "
        f"weight was changed. {'; '.join(found) or 'Each batch alone is finite'}"
    )
    if skips and in_a_row < MOST_SKIPPED:
        return f"{text}. The update is skipped"
    so_often = f", for the {in_a_row}th time in a row" if in_a_row > 1 else ""
    raise NumericsError(
        f"{text}{so_often}. A lower training.learning_rate, a longer "
        "training.warmup_steps or training.clip_norm = 1.0 would help; "
        "training.not_finite = 'skip' passes over it; the last checkpoint is whole"
    )


def check_finite(weights: Mapping[str, Tensor], step: int) -> None:
    """Refuse weights that must not be saved over good ones."""
    for name, weight in weights.items():
        if not _is_finite(weight):
            raise NumericsError(
                f"the weight {name} is not finite after update {step}, so it is not "
                "saved. A lower training.learning_rate, a longer training.warmup_steps "
                "or training.clip_norm = 1.0 would help; the last checkpoint is whole"
            )


def _is_finite(tensor: Tensor) -> bool:
    return bool(tensor.detach().isfinite().all())


class Divergence:
    """Notices that the loss, smoothed over some fifty updates, climbs and stays up."""

    MEMORY = 0.98
    SETTLED = 50
    RISE = 0.5

    def __init__(self) -> None:
        self._sum = 0.0
        self._weight = 0.0
        self._updates = 0
        self._lowest = math.inf
        self._lowest_step = 0
        self._told = False

    def warning_after(self, update: StepMetrics) -> str | None:
        """Return what a person should know after this update, if anything."""
        self._updates += 1
        self._sum = self.MEMORY * self._sum + (1 - self.MEMORY) * update.loss
        self._weight = self.MEMORY * self._weight + 1 - self.MEMORY
        smooth = self._sum / self._weight
        if self._updates < self.SETTLED:
            return None
        if smooth < self._lowest:
            self._lowest, self._lowest_step = smooth, update.step
            self._told = False
        if self._told or smooth < self._lowest + self.RISE:
            return None
        self._told = True
        return (
            f"training diverges: the loss was {self._lowest:.2f} around update "
            f"{self._lowest_step:,} and is {smooth:.2f} now, at a learning rate of "
            f"{update.learning_rate:.2g} and a gradient of length "
            f"{update.gradient_norm:.3g}. If it does not come down again, begin anew "
            "in another folder with a lower training.learning_rate, a longer "
            "training.warmup_steps or training.clip_norm = 1.0; the best model so far "
            "stays as it is"
        )
