"""Gradient accumulation: the gradients of one step, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from torch import Tensor, nn

from headwise.backends.distillation import Teachers
from headwise.backends.native.customization_check import find_customization
from headwise.backends.native.library import build
from headwise.backends.native.measured_speed import why_not_bf16
from headwise.backends.reference import why_variant
from headwise.data.ragged_batch import Batch
from headwise.errors import ResourceError, SettingsError
from headwise.model.sequence_model import SequenceModel
from headwise.openmp import torch_in_one_thread
from headwise.tasks.task import Task
from headwise.training.cpu_data_parallel import (
    WorkerOptions,
    WorkerPool,
    choose_num_workers,
)
from headwise.training.distributed import Ranks
from headwise.training.fsdp import ShardedPasses, gather_full, parts_to_shard
from headwise.training.micro_batch import MicroBatch, MicroBatchRunner
from headwise.training.nan_checks import first_non_finite
from headwise.training.settings import TrainingSettings
from headwise.training.step_result import Scalar, SummedLoss

BACKENDS_IN_CHECKPOINTS = {
    "auto": "PyTorch",
    "native": "PyTorch",
    "torch": "PyTorch",
    "reference": "readable kernels in PyTorch",
    "torch_compile": "compiled kernels in PyTorch",
}
"""What ``trained_on`` calls each backend where it is not native, in checkpoints."""


def _check_variants(
    model: SequenceModel, settings: TrainingSettings, ranks: Ranks
) -> None:
    """Raise ``SettingsError`` if a variant cannot be trained in the way that is set."""
    if settings.backend == "torch_compile" and (reason := why_variant(model)):
        raise SettingsError(
            [
                f"training.backend = 'torch_compile' cannot be used: {reason}; 'auto' "
                "trains it by PyTorch"
            ]
        )
    if ranks.size > 1 and model.config.norm_kind == "batch":
        raise SettingsError(
            [
                f"model.norm_kind = 'batch' trains in one process, not {ranks.size}: "
                "each would have running statistics of its own"
            ]
        )


class GradientAccumulator:
    """Accumulates the gradients of a step's batches in ``.grad`` of ``model``.

    A batch that does not fit into memory is split into micro-batches; on a CPU each
    batch may be split among data-parallel workers. The sum is the same, but for
    rounding and dropout masks. :meth:`close` ends the workers.
    """

    def __init__(
        self,
        task: Task,
        model: SequenceModel,
        settings: TrainingSettings,
        *,
        seed: int,
        ranks: Ranks,
        on_message: Callable[[str], None],
        check_stop: Callable[[], None],
        teachers: Teachers | None = None,
    ) -> None:
        """``on_message`` gets messages; ``check_stop`` may raise before each batch.

        ``teachers`` are those of the settings, if there are any.
        """
        self.model = model
        self.settings = settings
        self.ranks = ranks
        self.on_message = on_message
        self.check_stop = check_stop
        _check_variants(model, settings, ranks)
        # Frozen weights, hooks, teachers and the running statistics of batch
        # normalization exist in this process only, not in the workers.
        alone = (
            teachers is not None
            or find_customization(model) is not None
            or model.config.norm_kind == "batch"
        )
        self._runner = MicroBatchRunner(
            task.loss,
            model,
            settings,
            seed=seed,
            two_pass_loss=task.two_pass_loss,
            teachers=teachers,
        )
        reason = self._runner.why_not_native()
        if settings.backend == "native" and reason:
            raise SettingsError(
                [
                    f"training.backend = 'native' cannot be used: {reason}; 'auto' "
                    "trains by PyTorch then"
                ]
            )
        if not alone:
            self._runner.num_workers = choose_num_workers(
                settings, model.device, ranks, natively=reason is None
            )
        self._runner.async_metrics &= ranks.size == 1
        self.workers = WorkerPool(
            model,
            task.describe(model.config),
            settings,
            seed=seed,
            count=self._runner.num_workers - 1,
        )
        self._sharded: ShardedPasses | None = None
        if ranks.size > 1 and settings.devices == "shard":
            self._sharded = ShardedPasses(
                self._runner.make_loss_module(),
                parts_to_shard(model),
                model.device.type,
            )
        self._weights = list(model.parameters())  # walking the modules is slow
        self._max_padded_tokens: int | None = None

    @property
    def is_sharded(self) -> bool:
        """Whether this rank holds only a shard of each weight (FSDP2)."""
        return self._sharded is not None

    @property
    def async_metrics(self) -> bool:
        """Whether metrics are read one step late; see :class:`PendingStep`."""
        return self._runner.async_metrics

    def step_threads(self) -> AbstractContextManager[None]:
        """Return the context of a step: torch has one thread where kernels train."""
        natively = self._runner.trains_natively
        return torch_in_one_thread() if natively else nullcontext()

    @property
    def start_notes(self) -> tuple[str | None, ...]:
        """What is said at the start of training; None where there is nothing to say."""
        return (self.backend_note, self.precision_note)

    @property
    def backend_note(self) -> str | None:
        """A message that says which backend ``auto`` took on a CPU, and why."""
        if self.settings.backend != "auto" or self._runner.device.type != "cpu":
            return None
        if reason := self._runner.why_not_native():
            return f"training by PyTorch: {reason}"
        return f"training by the native backend, with {build().vectors}"

    @property
    def precision_note(self) -> str | None:
        """A message that says why ``auto`` took float32 though the library has bf16."""
        if self.settings.precision != "auto" or not self._runner.trains_natively:
            return None
        if (reason := why_not_bf16()) is None:
            return None
        return f"training in float32: {reason}; training.precision = 'bf16' uses it"

    @property
    def trained_on(self) -> str:
        """Hardware, versions and backend, as far as rounding depends on them.

        Checkpoints store this text (``TrainingState.trained_on``), so it stays literal.
        """
        runner = self._runner
        way = BACKENDS_IN_CHECKPOINTS[self.settings.backend]
        if runner.trains_natively:
            way = f"native library {build()}"
        return self.ranks.describe_hardware(
            runner.device, runner.precision, runner.num_workers, way
        )

    def close(self) -> None:
        """End the data-parallel workers."""
        self.workers.close()

    def accumulate(
        self,
        batches: Sequence[tuple[int, Batch]],
        *,
        step: int,
        divisor: float,
        dummy_batches: Sequence[Batch] = (),
    ) -> SummedLoss:
        """Set the gradients of the summed loss of ``batches`` over ``divisor``.

        Each batch comes with its index in the step, which seeds dropout. Returns the
        summed loss of this rank, in nats. ``dummy_batches`` add no gradient: with them
        a sharded rank takes part in the same collectives as the others. Raises
        ``ResourceError`` if a single pair does not fit into memory.
        """
        while True:
            for weight in self._weights:
                weight.grad = None
            self.workers.zero_grad()
            total = SummedLoss(0.0)
            for number, batch in batches:
                self.check_stop()  # weights change after the last batch only
                loss = self._forward_backward(batch, number, step, divisor)
                if loss is None:
                    break  # out of memory: start again with smaller micro-batches
                total += loss
            else:
                # None if another sharded rank ran out of memory: then all start again.
                if any(
                    self._forward_backward(each, 0, step, math.inf) is None
                    for each in dummy_batches
                ):
                    continue
                self.workers.reduce_gradients()
                return total

    def clip(self) -> Scalar:
        """Clip the gradients to ``clip_norm``, if set; return the L2 norm before."""
        found = [each.grad for each in self._weights if each.grad is not None]
        norm = nn.utils.get_total_norm(found)
        limit = self.settings.clip_norm
        length: Scalar = (
            norm if self.async_metrics else gather_full({"": norm})[""].item()
        )
        # With async metrics, comparing would synchronise with the GPU: always clip.
        if limit is not None and (self.async_metrics or not length < limit):
            nn.utils.clip_grads_with_norm_(self._weights, limit, norm)
        return length

    def loss(
        self, micro_batch: MicroBatch, *, step: int, number: int, part: int = 0
    ) -> Tensor:
        """Return the summed loss as in :meth:`accumulate`; forward hooks are called."""
        with self._runner.uncompiled():
            return self._runner.loss(micro_batch, step, number, part).total

    def locate_non_finite(
        self, batches: Sequence[tuple[int, Batch]], *, step: int
    ) -> str | None:
        """Name the first NaN or infinite tensor, and its batch; None if all are finite.

        The batches are run again, with the same dropout.
        """
        for number, batch in batches:
            pairs = ", ".join(str(int(index)) for index in batch.indices[:3])
            place = (
                f"batch {number + 1} of the update (pairs {pairs}, ... of the corpus)"
            )
            if self.is_sharded:  # a rank cannot run a forward pass alone
                return f"It may have been {place}"
            parts: Sequence[MicroBatch] = batch.deal(self._runner.num_workers)
            if self._runner.num_workers == 1:
                parts = self._runner.micro_batches(batch, self._max_padded_tokens)
            for part, each in enumerate(parts):
                loss = partial(self.loss, each, step=step, number=number, part=part)
                with self.model.statistics_restored():
                    tensor = first_non_finite(self.model, loss)
                if tensor is not None:
                    return f"It began with {tensor} in {place}"
        return None

    def _forward_backward(
        self, batch: Batch, number: int, step: int, divisor: float
    ) -> SummedLoss | None:
        """Run one batch, return its summed loss; None if any worker lacks memory."""
        if self._sharded is not None:
            return self._forward_backward_sharded(
                self._sharded, batch, number, step, divisor
            )
        parts = batch.deal(self._runner.num_workers)
        options = WorkerOptions(1 / divisor, self._max_padded_tokens)
        micro_batches = self._runner.micro_batches(parts[0], self._max_padded_tokens)
        with self.workers.running(parts[1:], step, number, options) as others:
            own = self._runner.run(micro_batches, 1 / divisor, step, number)
        losses = [own, *others]
        found = [each for each in losses if each is not None]
        if len(found) == len(losses):
            return sum(found, start=SummedLoss(0.0))
        failed = micro_batches[0]
        self._halve_micro_batches(len(failed), failed.padded_tokens)
        return None

    def _forward_backward_sharded(
        self,
        sharded: ShardedPasses,
        batch: Batch,
        number: int,
        step: int,
        divisor: float,
    ) -> SummedLoss | None:
        """Run one batch where each pass is collective; None if any rank lacks memory.

        All ranks run equally many micro-batches; a rank with too few pairs repeats its
        first one with loss scale 0.
        """
        # FSDP2 takes the mean over the ranks; what is wanted is the sum.
        scale = self.ranks.size / divisor
        count = 1
        if self._max_padded_tokens is not None:
            own = self._runner.micro_batches(batch, self._max_padded_tokens)
            count = max(self.ranks.all_gather(len(own)))
        parts = batch.parts(min(count, len(batch)))
        total = SummedLoss(0.0)
        for index in range(count):
            is_dummy = index >= len(parts)
            part = parts[0 if is_dummy else index]
            loss = self._try_micro_batch(
                sharded, part, 0.0 if is_dummy else scale, step, number, index
            )
            if any(self.ranks.all_reduce_sum(loss is None)):
                failed = (len(part), part.padded_tokens) if loss is None else None
                sizes = self.ranks.all_gather(failed)
                self._halve_micro_batches(*min(sizes, key=_half))
                return None
            if loss is not None and not is_dummy:
                total += loss
        return total

    def _try_micro_batch(
        self, sharded: ShardedPasses, part: Batch, scale: float, *place: int
    ) -> SummedLoss | None:
        """Run one micro-batch; None if memory ran out on this rank."""
        runner = self._runner

        def catch_up() -> None:
            pair = part.parts(len(part))[-1]
            if runner.run([pair], 0.0, *place) is None:
                raise _no_memory_for_a_pair(pair.padded_tokens)

        return sharded.attempt(lambda: runner.run([part], scale, *place), catch_up)

    def _halve_micro_batches(self, rows: int, padded_tokens: int) -> None:
        """Limit micro-batches to half of one of this size, and say so."""
        if rows == 1:
            raise _no_memory_for_a_pair(padded_tokens)
        self._max_padded_tokens = _half((rows, padded_tokens))
        passes = self.settings.num_passes
        self.on_message(
            f"a batch of {passes * padded_tokens:,} tokens with padding did not fit "
            f"into memory; from now on at most {passes * self._max_padded_tokens:,} "
            "are learned from at a time, to the same sum. A smaller "
            "training.batch_tokens with a larger training.accumulate would save the "
            "second attempt"
        )


def _half(size: tuple[int, int]) -> int:
    """Return the padded tokens of half the rows of a (rows, padded tokens) batch."""
    rows, padded_tokens = size
    return padded_tokens // rows * (rows // 2)


def _no_memory_for_a_pair(padded_tokens: int) -> ResourceError:
    return ResourceError(
        f"there is not enough memory to learn from a single pair of {padded_tokens:,} "
        "tokens; a smaller data.max_tokens or model, or "
        "training.activation_checkpointing = true, needs less"
    )
