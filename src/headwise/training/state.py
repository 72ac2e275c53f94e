"""Where a training run stands: what a checkpoint holds besides weights."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingState:
    """A value; each update makes a new one. The next batch follows from it alone."""

    step: int = 0
    """Updates that were made."""

    epoch: int = 0
    """Epochs that were completed."""

    batch: int = 0
    """Batches of the running epoch that were learned from."""

    tokens: int = 0
    """Source and target tokens learned from, without padding."""

    seconds: float = 0.0
    """Time spent, over all interruptions."""

    best_value: float | None = None
    """Best value of the chosen measure at a validation."""

    best_loss: float | None = None
    """Validation loss of that model, which decides between equals."""

    best_step: int = 0
    """Updates after which it was reached."""

    validated_step: int = 0
    """Updates after which the last validation was made."""

    without_gain: int = 0
    """Validations, one after the other, that brought no gain."""

    averaged_step: int = 0
    """Updates after which the mean of the last checkpoints was looked at."""
