"""The training loop, from top to bottom.

Everything an update depends on follows from the seed, the state and the weights: which
batch comes next, and which units dropout silences. So a run that was interrupted goes
on as if it had not been.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from headwise.data.batches import Batch, TrainingOrder, largest_batch
from headwise.data.prepared import PreparedCorpus
from headwise.errors import NumericsError, Stopped
from headwise.tasks import Transformer, Translation
from headwise.training.averaging import average
from headwise.training.optimizer import (
    make_optimizer,
    optimizer_tensors,
    restore_optimizer,
)
from headwise.training.schedule import learning_rate
from headwise.training.settings import TrainingSettings
from headwise.training.signals import Interrupted, StopSignals
from headwise.training.state import TrainingState
from headwise.training.validation import Validation, validate
from headwise.training.watch import Update, Watcher


class Keeper(Protocol):
    """Where training puts what must not be lost."""

    def save(
        self,
        state: TrainingState,
        weights: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
    ) -> None:
        """Keep all that is needed to go on from ``state``."""

    def save_best(
        self, state: TrainingState, model: Transformer, validation: Validation
    ) -> None:
        """Keep a model that is better than any before."""

    def last_weights(self, count: int) -> Iterable[Mapping[str, Tensor]]:
        """Yield the weights of the last ``count`` checkpoints of this run's rhythm."""


class Trainer:
    """Trains ``model`` on ``corpus`` from ``state`` on; :meth:`run` does it all."""

    def __init__(
        self,
        task: Translation,
        model: Transformer,
        corpus: PreparedCorpus,
        settings: TrainingSettings,
        *,
        seed: int,
        keeper: Keeper,
        watchers: Sequence[Watcher],
        signals: StopSignals,
        state: TrainingState | None = None,
        optimizer: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.task = replace(task, stop=signals.check)
        self.model = model
        self.corpus = corpus
        self.settings = settings
        self.seed = seed
        self.keeper = keeper
        self.watchers = tuple(watchers)
        self.signals = signals
        self.state = state or TrainingState()
        self.optimizer = make_optimizer(model, settings)
        if optimizer is not None:
            restore_optimizer(model, self.optimizer, optimizer)
        self.order = TrainingOrder(
            corpus.train,
            seed=seed,
            batch_tokens=settings.batch_tokens,
            batch_pairs=settings.batch_pairs,
        )
        self._started = time.monotonic() - self.state.seconds

    def run(self) -> TrainingState:
        """Train until there is a reason to end; return where that was.

        A stop signal saves a checkpoint and raises ``Stopped`` or ``Interrupted``.
        """
        epoch_batches = self.order.num_batches(self.state.epoch)
        for watcher in self.watchers:
            watcher.starts(self.state, self.settings, epoch_batches)
        reason = "failed"
        try:
            self.try_largest_batch()
            reason = self._learn()
            self._try_average()
        except (Stopped, Interrupted):
            reason = "stopped"
            if self.state.step:  # before the first update there is nothing to lose
                self._save()
            raise
        finally:
            for watcher in self.watchers:
                watcher.ends(self.state, reason)
        return self.state

    def try_largest_batch(self) -> None:
        """Go once through the batch that takes most memory, and forget it.

        What does not fit fails here, and not after hours.
        """
        facts = self.corpus.facts.train
        tokens = self.settings.batch_tokens if self.settings.batch_pairs is None else 1
        batch = largest_batch(facts.longest_source, facts.longest_target, tokens)
        self._loss(batch).backward()  # type: ignore[no-untyped-call]
        self.optimizer.zero_grad()

    def _learn(self) -> str:
        batches = self._batches()
        while True:
            if self._is_time_to_look():
                self._look()
            if reason := self._reason_to_end():
                return reason
            self._update(batches)

    def _batches(self) -> Iterator[tuple[Batch, int, int]]:
        """Yield each batch with the epoch, and the batch in it, that follow."""
        epoch, start = self.state.epoch, self.state.batch
        while True:
            for number, batch in enumerate(
                self.order.batches(epoch, start=start), start=start + 1
            ):
                yield batch, epoch, number
            epoch, start = epoch + 1, 0

    def _update(self, batches: Iterator[tuple[Batch, int, int]]) -> None:
        """Learn from the next batches: one update of the weights."""
        started = time.monotonic()
        settings, step = self.settings, self.state.step + 1
        chosen = [next(batches) for _ in range(settings.accumulate)]
        num_targets = sum(batch.num_target_tokens for batch, _, _ in chosen)
        divisor = num_targets if settings.objective == "mean" else 1
        seed_chance(self.seed, step)
        self.model.train()
        self.optimizer.zero_grad()
        total = 0.0
        for batch, _, _ in chosen:
            self.signals.check()  # nothing is changed before the last of them
            loss = self._loss(batch)
            (loss / divisor).backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        norm = self._clip()
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise _not_finite(step, total, norm, [batch for batch, _, _ in chosen])
        rate = learning_rate(step, settings, self.model.config.d_model)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()

        tokens = num_targets + sum(batch.num_source_tokens for batch, _, _ in chosen)
        _, epoch, number = chosen[-1]
        self.state = replace(
            self.state,
            step=step,
            epoch=epoch,
            batch=number,
            tokens=self.state.tokens + tokens,
            seconds=time.monotonic() - self._started,
        )
        update = Update(
            step=step,
            loss=total / num_targets,
            learning_rate=rate,
            gradient_norm=norm,
            tokens=tokens,
            seconds=time.monotonic() - started,
        )
        for watcher in self.watchers:
            watcher.updated(update, self.state)

    def _loss(self, batch: Batch) -> Tensor:
        device = self.model.device
        dtype = self._autocast_dtype(device)
        with torch.autocast(device.type, dtype, enabled=dtype is not None):
            return self.task.loss(
                self.model,
                batch.to(device),
                smoothing=self.settings.label_smoothing,
            )

    def _autocast_dtype(self, device: torch.device) -> torch.dtype | None:
        precision = self.settings.precision
        if precision == "auto":
            precision = "float32" if device.type == "cpu" else "bf16"
        return torch.bfloat16 if precision == "bf16" else None

    def _clip(self) -> float:
        """Return the length of the gradient, after cutting it down where asked to."""
        limit = self.settings.clip_norm
        most = math.inf if limit is None else limit
        return nn.utils.clip_grad_norm_(self.model.parameters(), most).item()

    def _is_time_to_look(self) -> bool:
        step = self.state.step
        if not step or self.state.validated_step == step:
            return False
        ends = self._is_over_time() or step >= self.settings.steps
        return ends or step % self.settings.validate_every == 0

    def _look(self) -> None:
        """Validate, keep the model if it is the best, and save a checkpoint."""
        validation = validate(self.task, self.model, self.corpus, self.settings)
        best = self._judge(validation, "now")
        without_gain = 0 if best else self.state.without_gain + 1
        self.state = replace(self.state, without_gain=without_gain)
        self._save()

    def _judge(self, validation: Validation, name: str) -> bool:
        """Keep the model if it is the best so far; return whether it is."""
        value = validation.value(self.settings.measure)
        best = self._is_better(value, validation.loss)
        state = replace(
            self.state,
            validated_step=self.state.step,
            seconds=time.monotonic() - self._started,
        )
        if best:
            state = replace(
                state,
                best_value=value,
                best_loss=validation.loss,
                best_step=state.step,
            )
            self.keeper.save_best(state, self.model, validation)
        self.state = state
        for watcher in self.watchers:
            watcher.validated(validation, state, name, best)
        return best

    def _is_better(self, value: float, loss: float) -> bool:
        """Compare with the best so far; of equals, as BLEU 0 is, the loss decides."""
        best, best_loss = self.state.best_value, self.state.best_loss
        if best is None:
            return True
        if value == best and best_loss is not None:
            return loss < best_loss
        return value < best if self.settings.less_is_better else value > best

    def _reason_to_end(self) -> str | None:
        settings = self.settings
        if self.state.step >= settings.steps:
            return f"{settings.steps:,} updates are done"
        if self._is_over_time():
            return f"{settings.max_minutes:g} minutes are over"
        if settings.patience and self.state.without_gain >= settings.patience:
            return f"{self.state.without_gain} validations brought no gain"
        return None

    def _is_over_time(self) -> bool:
        """Tell whether time is up; one update is always made, so that a model is."""
        limit = self.settings.max_minutes
        if limit is None or not self.state.step:
            return False
        return time.monotonic() - self._started >= 60 * limit

    def _try_average(self) -> None:
        """Look at the mean of the last checkpoints; keep it if it is the best."""
        if self.settings.average_last == 1:
            return
        if self.state.averaged_step == self.state.step:  # a finished run, run again
            return
        last = list(self.keeper.last_weights(self.settings.average_last))
        if len(last) < 2:
            return
        before = {name: w.clone() for name, w in self.model.state_dict().items()}
        try:
            self.model.load_state_dict(average(last))
            found = validate(self.task, self.model, self.corpus, self.settings)
            self._judge(found, f"mean of the last {len(last)} checkpoints")
        finally:
            self.model.load_state_dict(before)
        self.state = replace(self.state, averaged_step=self.state.step)
        self._save()

    def _save(self) -> None:
        self.keeper.save(
            self.state,
            self.model.state_dict(),
            optimizer_tensors(self.model, self.optimizer, self.state.step),
        )


def seed_chance(seed: int, step: int) -> None:
    """Make dropout a function of seed and step, whatever was drawn before."""
    (mixed,) = np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)
    torch.manual_seed(int(mixed))


def _not_finite(
    step: int, loss: float, norm: float, batches: list[Batch]
) -> NumericsError:
    pairs = [int(index) for batch in batches for index in batch.indices[:3]]
    return NumericsError(
        f"update {step} has loss {loss} and a gradient of length {norm}; no weight "
        f"was changed. Its batch begins with pairs {pairs} of the prepared corpus. A "
        "lower training.learning_rate, a longer training.warmup_steps or "
        "training.clip_norm = 1.0 would help; the last checkpoint is whole"
    )
