"""Where a training run stands: what a checkpoint holds besides weights."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingState:
    """A value; each update makes a new one. The next batch follows from it alone."""

    step: int = 0
    """Updates that were made, or skipped."""

    skipped: int = 0
    """Updates that were skipped, since a number in them was not finite."""

    skipped_in_a_row: int = 0
    """Those among them since the last that was made."""

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

    trained_on: str = ""
    """What computed the last update, as far as the last digits depend on it: processes,
    processor, threads, torch, precision, and what compiled the kernels in C."""

    def epochs(self, epoch_batches: int) -> float:
        """Return the passes so far, with the share of the running one."""
        return self.epoch + self.batch / max(1, epoch_batches, self.batch)

    def is_improved_by(
        self, value: float, loss: float, *, lower_is_better: bool
    ) -> bool:
        """Compare with the best so far; of equals, as BLEU 0 is, the loss decides."""
        if self.best_value is None:
            return True
        if value == self.best_value and self.best_loss is not None:
            return loss < self.best_loss
        return value < self.best_value if lower_is_better else value > self.best_value
