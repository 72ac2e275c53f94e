"""The training loop, from top to bottom.

Batch order and dropout are functions of the seed and the step. So a resumed run is bit
for bit the run that was never interrupted, and several ranks compute what one would.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from torch import Tensor

from headwise.backends.distillation import Teachers
from headwise.data.prepared import PreparedCorpus
from headwise.errors import Stopped
from headwise.model.sequence_model import SequenceModel
from headwise.tasks.task import Task
from headwise.training import data_loader
from headwise.training.averaging import EMA, EvalModel, average_checkpoints
from headwise.training.callbacks import Callback, CheckpointWriter, StepMetrics
from headwise.training.cooldown import begin_cooldown, plateau_cooldown, resume_cooldown
from headwise.training.distributed import (
    LostRankError,
    Ranks,
    check_batches_per_rank,
    hardware_changed_warning,
)
from headwise.training.epochs import end_reason, epochs_to_steps
from headwise.training.fsdp import gather_full
from headwise.training.gradient_accumulation import GradientAccumulator
from headwise.training.nan_checks import (
    DivergenceDetector,
    check_finite,
    non_finite_message,
)
from headwise.training.optimizer import (
    Optimizer,
    apply_update,
    optimizer_tensors,
    restore_optimizer,
)
from headwise.training.schedule import learning_rate
from headwise.training.settings import TrainingSettings
from headwise.training.signals import Interrupted, StopSignals
from headwise.training.state import LIVE, TrainingState
from headwise.training.step_result import PendingStep, SummedLoss
from headwise.training.time_limit import TimeLimit
from headwise.training.validation import Validation, validate


class Trainer:
    """Trains ``model`` on ``corpus``; :meth:`run` does it all.

    ``state``, ``optimizer`` and ``ema`` are those of a checkpoint to resume from.
    ``until`` is a step to stop at for now, before the last one of the settings.
    """

    def __init__(
        self,
        task: Task,
        model: SequenceModel,
        corpus: PreparedCorpus,
        settings: TrainingSettings,
        *,
        seed: int,
        checkpoint_writer: CheckpointWriter,
        callbacks: Sequence[Callback],
        signals: StopSignals,
        state: TrainingState | None = None,
        optimizer: Mapping[str, Tensor] | None = None,
        ema: Mapping[str, Tensor] | None = None,
        ranks: Ranks | None = None,
        until: int | None = None,
        teachers: Teachers | None = None,
    ) -> None:
        self.task = task.with_check_stop(signals.check)
        self.model = model
        self.corpus = corpus
        self.seed = seed
        self.checkpoint_writer = checkpoint_writer
        self.ranks = ranks or Ranks()
        self.state = resume_cooldown(state or TrainingState(), settings)
        self.time_limit = TimeLimit(
            settings, corpus.facts, self.state, keeps_time=self.ranks.is_first
        )
        self.callbacks = (*callbacks, self.time_limit)
        self.signals = signals
        self.order = data_loader.training_order(corpus, settings, seed=seed)
        self.settings = settings = epochs_to_steps(settings, self.order, self.state)
        self._until = settings.num_steps if until is None else until
        check_batches_per_rank(settings, self.ranks.size)
        self.gradients = GradientAccumulator(
            task,
            model,
            settings,
            seed=seed,
            ranks=self.ranks,
            on_message=self._notify,
            check_stop=self._check_signals,
            teachers=teachers,
        )
        self.optimizer = Optimizer(model, settings)
        if optimizer is not None:
            restore_optimizer(model, self.optimizer, optimizer)
        decay = settings.ema_decay
        self.ema = None if decay is None else EMA(model, decay, ema)
        self.divergence = DivergenceDetector()
        self._pending: PendingStep | None = None
        self._reported_at = 0.0
        self._time_limit_reached = False
        self._state_lock = threading.RLock()
        """Held by updates and saves: a checkpoint never sees a half-applied update."""

        self._saved_state = state
        self.eval_model = EvalModel(task, model)

    def run(self) -> TrainingState:
        """Train; return the last state. A stop signal saves, then raises."""
        epoch_batches = self.order.num_batches(self.state.epoch)
        for callback in self.callbacks:
            callback.on_start(
                self.state, replace(self.settings, steps=self.last_step), epoch_batches
            )
        self._warn_of_other_hardware()
        self.signals.emergency_save, reason = self._emergency_save, "failed"
        batches = data_loader.load_batches(
            self.order, self.state, self.settings, self.ranks, self.task.training_batch
        )
        try:
            if self.state.step < self.last_step:
                self.try_largest_batch()
            self._check_time_limit()
            while not (end := self._validate_or_stop()):
                with self.gradients.step_threads():
                    self._step(batches)
            reason = end
            self._validate_average()
        except (Stopped, Interrupted):
            reason = "stopped"
            if self.state.step:  # before the first step there is nothing to lose
                self._save()
            raise
        except LostRankError:
            reason = "lost another process"
            if self.state.step and not self.gradients.is_sharded:
                self._save()
            raise
        finally:
            self.signals.emergency_save = None
            self.gradients.close()
            batches.close()
            for callback in self.callbacks:
                callback.on_end(self.state, reason)
        return self.state

    def _warn_of_other_hardware(self) -> None:
        """Warn if the checkpoint was trained on hardware that rounds differently."""
        notes = (*self.gradients.start_notes, data_loader.augmentation_note(self.order))
        for note in filter(None, notes):
            self._notify(note)
        now = self.gradients.trained_on
        if (before := self.state.trained_on) and before != now:
            self._notify(hardware_changed_warning(before, now))
        if self._saved_state is self.state:
            self._saved_state = replace(self.state, trained_on=now)
        self.state = replace(self.state, trained_on=now)

    def try_largest_batch(self) -> None:
        """Run the batch that takes most memory now, so that none fails hours later."""
        largest = data_loader.largest_training_batch
        batch = largest(self.corpus, self.order, self.settings)
        with self.model.statistics_restored(), self.gradients.step_threads():
            self.gradients.accumulate([(0, batch)], step=0, divisor=1)
        self.model.zero_grad()

    def _validate_or_stop(self) -> str | None:
        """Validate if it is time to; return why training ends, or None."""
        if self._should_validate():
            self._validate_and_save()
        self.state, note = plateau_cooldown(self.state, self.settings)
        if note is not None:
            self._notify(note)
        over = self.time_limit.reason if self._time_limit_reached else None
        return end_reason(self.settings, self.state, self.last_step, time_over=over)

    @property
    def last_step(self) -> int:
        """The step that training ends with, unless time or patience ends it before."""
        last = min(self._until, self.settings.num_steps)
        return min(last, self.state.cooldown_end) if self.state.plateau_step else last

    def _step(self, batches: data_loader.BatchStream) -> None:
        """Make one optimizer step: load, forward, backward, clip, update."""
        started, settings, step = time.monotonic(), self.settings, self.state.step + 1
        loaded = list(islice(batches, settings.accumulate))
        counts = [self.corpus.train.count_tokens(each.indices) for each, _ in loaded]
        num_targets = sum(targets for _, targets in counts)
        divisor = num_targets if settings.objective == "mean" else 1
        own = [(at.index_in_step, batch) for at, batch in loaded if batch is not None]

        if not self.model.training:
            self.model.train()
        count = -(-len(loaded) // self.ranks.size) if self.gradients.is_sharded else 1
        dummies = data_loader.make_dummy_batches(loaded, self.corpus.train, count)
        with self.model.statistics_restored(if_raised=True):
            own_loss = self.gradients.accumulate(
                own, step=step, divisor=divisor, dummy_batches=dummies
            )
            drawn = sum(batch.num_target_tokens for _, batch in own)
            loss, cooldown, drawn = self._all_reduce_loss(own_loss, drawn)
        if not self.gradients.is_sharded:
            self.ranks.all_reduce_gradients(self.model.parameters())
        rate = learning_rate(step, settings, self.model.config.d_model, self.state)
        pending = PendingStep(
            step=step,
            loss=loss.loss,
            kl_divergence=loss.kl_divergence if settings.has_divergence else None,
            gradient_norm=self.gradients.clip(),
            batches=own,
            num_targets=num_targets if settings.objective == "mean" else drawn,
            tokens=sum(map(sum, counts)),
            learning_rate=rate,
            started=started,
        )
        self._report_pending()  # the step before, if metrics are read one step late
        is_finite = self.gradients.async_metrics or pending.is_finite
        if not is_finite:
            self._handle_non_finite(pending)

        with self._state_lock:
            if is_finite:
                apply_update(self.optimizer, pending)
                if self.ema is not None:
                    self.ema.update(self.model, step)
                self._pending = pending
            last, _ = loaded[-1]
            ends = last.number == self.order.num_batches(last.epoch)
            state = self.state.after_step(
                applied=is_finite,
                epoch=last.epoch + ends,
                batch=0 if ends else last.number,
                tokens=pending.tokens,
                seconds=self.time_limit.seconds,
            )
            limit = 60 * (settings.max_minutes or 0.0)
            self.state = begin_cooldown(state, cooldown, limit=limit)
            if not self.gradients.async_metrics:
                self._report_pending()

    def _report_pending(self) -> None:
        """Report the metrics of the last step, unless that was done."""
        with self._state_lock:
            pending, self._pending = self._pending, None
            if pending is None:
                return
            if self.gradients.async_metrics and not pending.is_finite:
                self._handle_non_finite(pending)
            self._report(pending.to_metrics(since=self._reported_at))
            self._reported_at = time.monotonic()

    def _check_signals(self) -> None:
        """Raise on a pending stop signal; several ranks decide collectively instead."""
        if self.ranks.size == 1:
            self.signals.check()

    def _all_reduce_loss(
        self, own: SummedLoss, own_targets: int
    ) -> tuple[SummedLoss, int, int]:
        """Sum loss, cooldown steps and target tokens over ranks; stop on a signal."""
        known = 0.0 if isinstance(own.loss, Tensor) else own.loss
        wants_to_stop = self.signals.received is not None
        is_late = self.time_limit.is_reached_after(self.state, self.state.step + 1)
        ahead = self.time_limit.cooldown_steps(self.state)
        total, kl, stops, late, cooldown, targets = self.ranks.all_reduce_sum(
            *(known, own.kl_divergence, wants_to_stop, is_late, ahead, own_targets)
        )
        self._time_limit_reached = late > 0
        if stops:
            self.signals.check()
            raise Stopped("stopped with another process of the run; all is saved")
        loss = own.loss if isinstance(own.loss, Tensor) else total
        return SummedLoss(loss, kl), int(cooldown), int(targets)

    def _report(self, metrics: StepMetrics) -> None:
        for callback in self.callbacks:
            callback.on_step(metrics, self.state)
        if warning := self.divergence.warning_after(metrics):
            self._notify(warning)

    def _handle_non_finite(self, pending: PendingStep) -> None:
        """Report the first NaN or Inf tensor; raise unless updates may be skipped."""
        place = self.gradients.locate_non_finite(pending.batches, step=pending.step)
        in_a_row = self.state.skipped_in_a_row + 1
        skips = self.settings.not_finite == "skip"
        self._notify(
            non_finite_message(pending, self.ranks.all_gather(place), skips, in_a_row)
        )

    def _should_validate(self) -> bool:
        step = self.state.step
        if not step or self.state.validated_step == step:
            return False
        ends = self._time_limit_reached or step >= self.last_step
        return ends or step % self.settings.validate_every == 0

    def _validate_and_save(self) -> None:
        """Validate, store the model if it is the best, and save a checkpoint."""
        self._report_pending()
        if self._time_limit_reached and (note := self.time_limit.overrun(self.state)):
            self._notify(note)
        model = self._model_to_validate()
        validation = self.ranks.run_on_first(lambda: self._validate(model))
        self._update_best(validation, model)
        self._save()

    def _model_to_validate(self) -> SequenceModel:
        """Return the model to validate: the live one, or its EMA."""
        if self.ema is None and not self.gradients.is_sharded:
            return self.model
        tensors = self.model.state_dict() if self.ema is None else self.ema.tensors
        weights = gather_full(tensors)
        if not self.ranks.is_first:  # which alone validates
            return self.model
        return self.eval_model.with_weights(weights)

    def _validate(self, model: SequenceModel) -> Validation:
        return validate(self.task, model, self.corpus, self.settings)

    def _update_best(
        self, validation: Validation, model: SequenceModel, averaged: int | None = None
    ) -> None:
        """Store ``model``, or a mean of so many, if it is the best; tell callbacks."""
        state, best = self.state.after_validation(
            validation.value(self.settings.measure),
            validation.loss,
            seconds=self.time_limit.seconds,
            lower_is_better=self.settings.lower_is_better,
            of_average=averaged is not None,
        )
        if best:
            write = self.checkpoint_writer.save_best
            self.ranks.run_on_first(partial(write, state, model, validation))
        self.state = state  # before callbacks: a stop signal may save in one of them
        name = LIVE if averaged is None else f"mean of the last {averaged} checkpoints"
        for callback in self.callbacks:
            callback.on_validation(validation, state, name, best)

    def _check_time_limit(self) -> None:
        """Check before the first step; a fresh run makes one step in any case."""
        is_late = self.time_limit.is_reached_after(self.state, self.state.step)
        (late,) = self.ranks.all_reduce_sum(is_late)
        self._time_limit_reached = late > 0 and self.state.step > 0

    def _validate_average(self) -> None:
        """Validate the average of the last checkpoints, at the end of a whole run."""
        step, settings = self.state.step, self.settings
        is_part = self._until <= step < settings.num_steps
        if settings.average_last == 1 or is_part or self.state.averaged_step == step:
            return  # the last: a finished run, run again
        if (found := self.ranks.run_on_first(self._evaluate_average)) is not None:
            count, validation = found
            self._update_best(validation, self.eval_model.model, averaged=count)
            self._save()

    def _evaluate_average(self) -> tuple[int, Validation] | None:
        last = self.checkpoint_writer.last_weights(self.settings.average_last)
        means, count = average_checkpoints(last)
        if count < 2:
            return None
        return count, self._validate(self.eval_model.with_weights(means))

    def _save(self) -> None:
        """Save a checkpoint, unless the current state was saved already."""
        with self._state_lock:
            self._report_pending()
            if self._saved_state == self.state:
                return
            weights = gather_full(self.model.state_dict())
            moments = gather_full(optimizer_tensors(self.model, self.optimizer))
            ema = None if self.ema is None else gather_full(self.ema.tensors)
            if self.ranks.is_first:
                check_finite(weights, self.state.step)
                self.checkpoint_writer.save(self.state, weights, moments, ema)
            self._saved_state = self.state

    def _emergency_save(self) -> None:
        """Save the state after the last finished step; runs in another thread."""
        if self.ranks.is_first and not self.gradients.is_sharded and self.state.step:
            self._save()
        for callback in self.callbacks:
            callback.on_end(self.state, "stopped")

    def _notify(self, text: str) -> None:
        for callback in self.callbacks:
            callback.on_message(text)
