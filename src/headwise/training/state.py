"""The training state: what a checkpoint holds besides tensors (``state.json``)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwise.wording import count_of

LIVE = "now"
"""Name of a validation of the live weights, not of averaged checkpoints. Logs and
events hold it, so it stays literal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingState:
    """Immutable; each step makes a new one. It determines the next batch.

    The field names are keys of ``state.json``.
    """

    step: int = 0
    """Steps so far, skipped ones included."""

    skipped: int = 0
    """Steps that were skipped because the loss or gradient was NaN or Inf."""

    skipped_in_a_row: int = 0
    """Skipped steps since the last one that was applied."""

    epoch: int = 0
    """Completed epochs."""

    batch: int = 0
    """Batches used of the current epoch."""

    tokens: int = 0
    """Source and target tokens trained on, without padding."""

    seconds: float = 0.0
    """Training time, over all interruptions."""

    best_value: float | None = None
    """Best validation value of ``training.measure``."""

    best_loss: float | None = None
    """Validation loss of that model, which breaks ties."""

    best_step: int = 0
    """Step of that model."""

    validated_step: int = 0
    """Step of the last validation."""

    without_gain: int = 0
    """Validations in a row without an improvement, up to a plateau's cooldown."""

    plateau_step: int = 0
    """Step at which patience was exhausted and a cooldown began; 0: none did."""

    cooldown_start: int = 0
    """First step of the cooldown, once time or a plateau decided it; 0: not yet."""

    cooldown_end: int = 0
    """Last step of that cooldown, after which the learning rate is 0."""

    cooldown_limit: float = 0.0
    """Seconds of the time limit that decided it; 0: none did, or it is not known."""

    averaged_step: int = 0
    """Step of the last validation of averaged checkpoints."""

    trained_on: str = ""
    """Hardware and software of the last step, as far as rounding depends on them:
    processes, processor, threads, torch, precision, and the compiler of C kernels."""

    def after_step(
        self, *, applied: bool, epoch: int, batch: int, tokens: int, seconds: float
    ) -> TrainingState:
        """Return the state after the next step, which was ``applied`` or skipped.

        It trained on ``tokens``, up to ``batch`` of ``epoch``.
        """
        return replace(
            self,
            step=self.step + 1,
            skipped=self.skipped + (not applied),
            skipped_in_a_row=0 if applied else self.skipped_in_a_row + 1,
            epoch=epoch,
            batch=batch,
            tokens=self.tokens + tokens,
            seconds=seconds,
        )

    def after_validation(
        self,
        value: float,
        loss: float,
        *,
        seconds: float,
        lower_is_better: bool,
        of_average: bool = False,
    ) -> tuple[TrainingState, bool]:
        """Return the state after a validation, and whether its model is the best.

        ``value`` is that of ``training.measure``, ``of_average`` whether it is of
        averaged checkpoints. A validation in a plateau's cooldown does not count, so
        that ``without_gain`` keeps saying why the cooldown began; nor does one without
        a best model to compare with, as a run may have lost it.
        """
        best = self.is_improved_by(value, loss, lower_is_better=lower_is_better)
        state = replace(self, validated_step=self.step, seconds=seconds)
        if of_average:
            state = replace(state, averaged_step=self.step)
        elif not self.plateau_step and self.best_value is not None:
            state = replace(state, without_gain=0 if best else self.without_gain + 1)
        if best:
            state = replace(
                state, best_value=value, best_loss=loss, best_step=self.step
            )
        return state, best

    def has_exhausted(self, patience: int | None) -> bool:
        """Return whether so many validations in a row brought no improvement."""
        return patience is not None and self.without_gain >= patience

    @property
    def no_gain(self) -> str:
        """What exhausted the patience of a run, in words."""
        return f"{count_of(self.without_gain, 'validation')} brought no gain"

    def epochs(self, epoch_batches: int) -> float:
        """Return the epochs so far, with the fraction of the current one."""
        return self.epoch + self.batch / max(1, epoch_batches, self.batch)

    def is_improved_by(
        self, value: float, loss: float, *, lower_is_better: bool
    ) -> bool:
        """Return whether ``value`` is better than the best; the loss breaks ties."""
        if self.best_value is None:
            return True
        if value == self.best_value and self.best_loss is not None:
            return loss < self.best_loss
        return value < self.best_value if lower_is_better else value > self.best_value
