"""The gradient of an update: batch by batch, in the memory there is."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from headwise.data.batches import Batch
from headwise.errors import ResourceError, is_out_of_memory
from headwise.tasks import Transformer, Translation, use_kernels
from headwise.training.numerics import first_not_finite
from headwise.training.ranks import Ranks, sharded
from headwise.training.settings import TrainingSettings


class Gradients:
    """Adds up the gradients of the batches of an update, in ``model``'s ``.grad``.

    A batch that does not fit into memory is learned from in parts: the sum is the
    same, but for rounding and for which units dropout silences.
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
        self.seed = seed
        self.ranks = ranks
        self.say = say
        self.stop = stop
        self.device = model.device
        self.is_sharded = ranks.size > 1 and settings.devices == "shard"
        self._loss = _LossOf(task, model, settings)
        use_kernels(model, settings.kernels)
        if settings.activation_checkpointing:
            model.checkpoint_activations(True)
        if self.is_sharded:
            # What a decoder block reads of the source is computed outside its forward,
            # so of these only the feed-forward networks come and go.
            parts = [*model.encoder.blocks]
            for number in range(model.config.decoder_layers):
                parts.append(
                    model.get_submodule(f"decoder.blocks.{number}.feed_forward")
                )
            sharded(self._loss, parts, self.device.type)
        self._most_places: int | None = None

    def of(
        self, batches: Sequence[tuple[int, Batch]], *, step: int, divisor: float
    ) -> float:
        """Return the summed loss of ``batches``; gradients are of its quotient.

        Each batch comes with its number in the update, which, with ``step``, decides
        what dropout silences.
        """
        while True:
            self._loss.zero_grad()
            total = 0.0
            for number, batch in batches:
                self.stop()  # no weight is changed before the last of them
                found = self._learn_from(batch, number, step, divisor)
                if found is None:
                    break  # it will come in smaller parts: begin again
                total += found
            else:
                return total

    def loss(self, batch: Batch, *, step: int, number: int, part: int = 0) -> Tensor:
        """Compute the summed loss of a batch as :meth:`of` does."""
        seed_chance(self.seed, step, number, part)
        enabled = self.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=enabled):
            return cast(Tensor, self._loss(batch.to(self.device)))

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
            loss = partial(self.loss, batch, step=step, number=number)
            tensor = first_not_finite(self.model, loss)
            if tensor is not None:
                return f"It began with {tensor} in {place}"
        return None

    def _learn_from(
        self, batch: Batch, number: int, step: int, divisor: float
    ) -> float | None:
        """Go through one batch and back; None where memory did not suffice."""
        # FSDP2 takes the mean over the ranks; what is wanted is the sum.
        scale = (self.ranks.size if self.is_sharded else 1) / divisor
        parts = batch.parts(self._num_parts(batch))
        try:
            total = 0.0
            for index, part in enumerate(parts):
                loss = self.loss(part, step=step, number=number, part=index)
                (loss * scale).backward()  # type: ignore[no-untyped-call]
                total += loss.item()
            return total
        except Exception as error:
            if not is_out_of_memory(error) or self.is_sharded:
                raise
        self._make_parts_smaller(parts[0])
        return None

    def _num_parts(self, batch: Batch) -> int:
        if self._most_places is None:
            return 1
        return min(len(batch), -(-batch.num_places // self._most_places))

    def _make_parts_smaller(self, failed: Batch) -> None:
        gc.collect()  # the error held on to what had been computed
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        rows, length = len(failed), failed.num_places // len(failed)
        if rows == 1:
            raise ResourceError(
                f"there is not enough memory to learn from a single pair of {length:,} "
                "tokens; a smaller data.max_tokens or model, or "
                "training.activation_checkpointing = true, needs less"
            )
        self._most_places = length * (rows // 2)
        self.say(
            f"a batch of {failed.num_places:,} tokens with padding did not fit into "
            f"memory; from now on at most {self._most_places:,} are learned from at a "
            "time, to the same sum. A smaller training.batch_tokens with a larger "
            "training.accumulate would save the second attempt"
        )

    @property
    def precision(self) -> str:
        """Return what products are computed in: float32, or bf16 where that gains."""
        if self.settings.precision != "auto":
            return self.settings.precision
        gains = self.device.type != "cpu" or torch.cpu._is_amx_tile_supported()
        return "bf16" if gains else "float32"


class _LossOf(nn.Module):
    """The loss as a module, so that all of a pass lies inside one ``forward``."""

    def __init__(
        self, task: Translation, model: Transformer, settings: TrainingSettings
    ) -> None:
        super().__init__()
        self.model = model
        self._task = task
        self._smoothing = settings.label_smoothing

    def forward(self, batch: Batch) -> Tensor:
        return self._task.loss(self.model, batch, smoothing=self._smoothing)


def seed_chance(seed: int, *place: int) -> None:
    """Make dropout a function of seed and place, whatever was drawn before."""
    mixed = np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)
    torch.manual_seed(int(mixed[0]))
