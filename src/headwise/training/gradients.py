"""The gradient of an update: batch by batch, in the memory there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor, nn

from headwise.data.batches import Batch
from headwise.errors import ResourceError
from headwise.native.compiler import build
from headwise.tasks.for_training import (
    Transformer,
    Translation,
    what_is_special,
    why_not_compiled,
)
from headwise.training.cpu_data_parallel import WorkerPool, choose_num_workers
from headwise.training.micro_batch import BackwardOptions, MicroBatch, MicroBatchRunner
from headwise.training.numerics import first_not_finite
from headwise.training.ranks import Ranks
from headwise.training.settings import TrainingSettings
from headwise.training.sharding import ShardedPasses, gathered
from headwise.training.step_result import Scalar


class Gradients:
    """Adds up the gradients of the batches of an update, in ``model``'s ``.grad``.

    A batch that does not fit into memory is learned from in parts: the sum is the
    same, but for rounding and for which units dropout silences. So it is where several
    processes each learn from a share of it, which :meth:`close` ends.
    """

    def __init__(
        self,
        task: Translation,
        model: Transformer,
        settings: TrainingSettings,
        *,
        seed: int,
        ranks: Ranks,
        say: Callable[[str], None],
        stop: Callable[[], None],
    ) -> None:
        self.model = model
        self.settings = settings
        self.ranks = ranks
        self.say = say
        self.stop = stop
        # The weights of the others are neither frozen nor hooked.
        alone = what_is_special(model) is not None
        count = 1 if alone else choose_num_workers(settings, model.device, ranks)
        self._runner = MicroBatchRunner(
            task.loss, model, settings, seed=seed, num_workers=count
        )
        self._runner.async_metrics &= ranks.size == 1
        self.workers = WorkerPool(model, settings, seed=seed, count=count - 1)
        self._passes: ShardedPasses | None = None
        if ranks.size > 1 and settings.devices == "shard":
            # What a decoder block reads of the source is computed outside its forward,
            # so of these only the feed-forward networks come and go.
            parts = [*model.encoder.blocks]
            for number in range(model.config.decoder_layers):
                parts.append(
                    model.get_submodule(f"decoder.blocks.{number}.feed_forward")
                )
            self._passes = ShardedPasses(
                self._runner.loss_module, parts, model.device.type
            )
        self._weights = list(model.parameters())  # to look for them takes a while
        self._max_padded_tokens: int | None = None

    @property
    def is_sharded(self) -> bool:
        """Whether this rank keeps a shard of the weights only."""
        return self._passes is not None

    @property
    def async_metrics(self) -> bool:
        """Whether metrics are read one step late; see :class:`PendingStep`."""
        return self._runner.async_metrics

    @property
    def way(self) -> str | None:
        """Say by what ``fast`` training goes on a CPU, and why; else None."""
        settings = self.settings
        on_cpu = self._runner.device.type == "cpu"
        if settings.kernels != "fast" or not on_cpu:
            return None
        if reason := why_not_compiled(self.model):
            return f"training by PyTorch: {reason}"
        found = build()
        return f"training by kernels in C: {found.compiler} for {found.vectors}"

    @property
    def described(self) -> str:
        """Return on what is computed, as far as the last digits depend on it."""
        runner = self._runner
        kernels = self.settings.kernels
        way = f"{kernels} kernels in PyTorch"
        if kernels in ("fast", "eager"):
            way = "PyTorch"
        if kernels == "fast" and not why_not_compiled(self.model):
            way = f"kernels in C by {build()}"
        return self.ranks.described(
            runner.device,
            runner.precision,
            runner.num_workers,
            way,
        )

    def close(self) -> None:
        """End the processes that learned with this one."""
        self.workers.close()

    def of(
        self,
        batches: Sequence[tuple[int, Batch]],
        *,
        step: int,
        divisor: float,
        idle: Sequence[Batch] = (),
    ) -> Scalar:
        """Return the summed loss of ``batches``; gradients are of its quotient.

        Each batch comes with its number in the update, which, with ``step``, decides
        what dropout silences. Those of ``idle`` count for nothing: they keep this rank
        in step with others that have more to learn from.
        """
        while True:
            for weight in self._weights:
                weight.grad = None
            self.workers.zero_grad()
            total: Scalar = 0.0
            for number, batch in batches:
                self.stop()  # no weight is changed before the last of them
                found = self._learn_from(batch, number, step, divisor)
                if found is None:
                    break  # it will come in smaller parts: begin again
                total += found
            else:
                # None here: with shards another rank begins again, and so do all.
                if any(
                    self._learn_from(each, 0, step, math.inf) is None for each in idle
                ):
                    continue
                self.workers.reduce_gradients()
                return total

    def clipped(self) -> Scalar:
        """Return the length of the gradient, after cutting it down where asked to."""
        found = [each.grad for each in self._weights if each.grad is not None]
        norm = nn.utils.get_total_norm(found)
        limit = self.settings.clip_norm
        length: Scalar = norm if self.async_metrics else gathered({"": norm})[""].item()
        # Whether there is something to cut off, a GPU in a hurry is not asked.
        if limit is not None and (self.async_metrics or not length < limit):
            nn.utils.clip_grads_with_norm_(self._weights, limit, norm)
        return length

    def loss(
        self, share: MicroBatch, *, step: int, number: int, part: int = 0
    ) -> Tensor:
        """Compute the summed loss of a share of a batch as :meth:`of` does."""
        with self._runner.uncompiled():
            return self._runner.loss(share, step, number, part)

    def where_not_finite(
        self, batches: Sequence[tuple[int, Batch]], *, step: int
    ) -> str | None:
        """Name the first tensor that is not finite, with the batch; None if all are."""
        for number, batch in batches:
            pairs = ", ".join(str(int(index)) for index in batch.indices[:3])
            place = (
                f"batch {number + 1} of the update (pairs {pairs}, ... of the corpus)"
            )
            if self.is_sharded:  # a look alone would leave the other ranks waiting
                return f"It may have been {place}"
            shares: Sequence[MicroBatch] = batch.dealt(self._runner.num_workers)
            if self._runner.num_workers == 1:
                shares = self._runner.micro_batches(batch, self._max_padded_tokens)
            for part, share in enumerate(shares):
                loss = partial(self.loss, share, step=step, number=number, part=part)
                tensor = first_not_finite(self.model, loss)
                if tensor is not None:
                    return f"It began with {tensor} in {place}"
        return None

    def _learn_from(
        self, batch: Batch, number: int, step: int, divisor: float
    ) -> Scalar | None:
        """Go through one batch and back; None where memory did not suffice."""
        if self._passes is not None:
            return self._learn_in_step(self._passes, batch, number, step, divisor)
        shares = batch.dealt(self._runner.num_workers)
        options = BackwardOptions(1 / divisor, self._max_padded_tokens)
        with self.workers.running(shares[1:], step, number, options) as others:
            own = self._runner.run_if_memory_suffices(shares[0], step, number, options)
        losses = [own, *others]
        found = [each for each in losses if each is not None]
        if len(found) == len(losses):
            return sum(found)
        failed = self._runner.micro_batches(shares[0], self._max_padded_tokens)[0]
        self._make_parts_smaller(len(failed), failed.num_places)
        return None

    def _learn_in_step(
        self,
        passes: ShardedPasses,
        batch: Batch,
        number: int,
        step: int,
        divisor: float,
    ) -> Scalar | None:
        """Do what :meth:`_learn_from` does where each pass takes all ranks.

        All cut their batches into as many parts; who has too few pairs for that goes
        through one of them again, for nothing. None on one rank is None on all.
        """
        # FSDP2 takes the mean over the ranks; what is wanted is the sum.
        scale = self.ranks.size / divisor
        count = 1
        if self._max_padded_tokens is not None:
            count = max(
                self.ranks.every(
                    len(self._runner.micro_batches(batch, self._max_padded_tokens))
                )
            )
        parts = batch.parts(min(count, len(batch)))
        total: Scalar = 0.0
        for index in range(count):
            is_idle = index >= len(parts)
            part = parts[0 if is_idle else index]
            loss = self._try_part(
                passes, part, 0.0 if is_idle else scale, step, number, index
            )
            if any(self.ranks.total(loss is None)):
                failed = (len(part), part.num_places) if loss is None else None
                sizes = self.ranks.every(failed)
                self._make_parts_smaller(*min(sizes, key=_half))
                return None
            total += 0.0 if is_idle or loss is None else loss
        return total

    def _try_part(
        self, passes: ShardedPasses, part: Batch, scale: float, *place: int
    ) -> Scalar | None:
        """Go through a part and back; None if memory did not suffice on this rank."""
        runner = self._runner

        def catch_up() -> None:
            pair = part.parts(len(part))[-1]
            done = runner.none_if_out_of_memory(
                lambda: runner.run_micro_batch(pair, 0.0, *place)
            )
            if done is None:
                raise _no_memory_for_a_pair(pair.num_places)

        return passes.attempt(
            lambda: runner.none_if_out_of_memory(
                lambda: runner.run_micro_batch(part, scale, *place)
            ),
            catch_up,
        )

    def _make_parts_smaller(self, rows: int, places: int) -> None:
        """Let no more than half of such a part be learned from at a time."""
        if rows == 1:
            raise _no_memory_for_a_pair(places)
        self._max_padded_tokens = _half((rows, places))
        self.say(
            f"a batch of {places:,} tokens with padding did not fit into "
            f"memory; from now on at most {self._max_padded_tokens:,} are learned from "
            "at a time, to the same sum. A smaller training.batch_tokens with a larger "
            "training.accumulate would save the second attempt"
        )


def _half(size: tuple[int, int]) -> int:
    """Return the places of half the rows of a part, which has rows and places."""
    rows, places = size
    return places // rows * (rows // 2)


def _no_memory_for_a_pair(places: int) -> ResourceError:
    return ResourceError(
        f"there is not enough memory to learn from a single pair of {places:,} "
        "tokens; a smaller data.max_tokens or model, or "
        "training.activation_checkpointing = true, needs less"
    )
