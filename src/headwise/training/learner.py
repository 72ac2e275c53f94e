"""One batch, forth and back: what each process that learns does with its share."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from headwise.data.batches import Batch
from headwise.data.row_batch import RowBatch
from headwise.errors import is_out_of_memory
from headwise.tasks.for_training import (
    CompiledLoss,
    Transformer,
    compiling_explained,
    use_kernels,
)
from headwise.training.settings import TrainingSettings
from headwise.training.step_result import Scalar

Part = Batch | RowBatch
"""What is gone through at a time: padded, or in rows."""

LossFunction = Callable[..., Tensor]
"""Model, batch and ``smoothing``, to the summed loss."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a share of a batch is learned from."""

    scale: float
    """What the loss is multiplied by before its gradients are taken."""

    most_places: int | None = None
    """Tokens and padding that are gone through at a time; None for all."""


class Learner:
    """Adds gradients of the summed loss of batches to ``model``'s ``.grad``.

    ``number`` of ``count`` is which share of each batch is learned from here.
    """

    def __init__(
        self,
        loss: LossFunction,
        model: Transformer,
        settings: TrainingSettings,
        *,
        seed: int,
        number: int = 0,
        count: int = 1,
    ) -> None:
        self.model = model
        self.settings = settings
        self.seed = seed
        self.number = number
        self.count = count
        self.device = model.device
        self.loss_module: _LossOf | CompiledLoss
        if settings.kernels == "compiled":
            self.loss_module = CompiledLoss(
                model,
                smoothing=settings.label_smoothing,
                batch_tokens=settings.batch_tokens,
            )
        else:
            self.loss_module = _LossOf(loss, model, settings)
        self.async_metrics = (
            settings.kernels == "compiled"
            and self.device.type == "cuda"
            and settings.not_finite == "stop"
        )
        """Whether losses are left on the device, to be asked for later."""

        use_kernels(model, settings.kernels)
        if settings.activation_checkpointing:
            model.checkpoint_activations(True)

    def loss(self, part: Part, *place: int) -> Tensor:
        """Compute the summed loss of a batch; ``place`` decides what dropout does."""
        seed_chance(self.seed, *place)
        enabled = self.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=enabled):
            return cast(Tensor, self.loss_module(part.to(self.device)))

    def parts(self, share: Batch, most_places: int | None) -> list[Part]:
        """Return what is gone through one after the other: no more places at a time."""
        if isinstance(self.loss_module, CompiledLoss):
            return [*self.loss_module.parts(share, most_places)]
        return [*parts_of(share, most_places)]

    @contextmanager
    def box_by_box(self) -> Iterator[None]:
        """Let hooks see each box, also of what is compiled."""
        if isinstance(self.loss_module, CompiledLoss):
            self.loss_module.is_compiled = False
        try:
            yield
        finally:
            if isinstance(self.loss_module, CompiledLoss):
                self.loss_module.is_compiled = True

    def learn(self, share: Batch, step: int, number: int, how: Manner) -> Scalar:
        """Go through a share of a batch and back; return its summed loss.

        The batch is that of this ``number`` in update ``step``.
        """
        total: Scalar = 0.0
        for index, part in enumerate(self.parts(share, how.most_places)):
            total += self.learn_part(part, how.scale, step, number, index)
        return total

    def learn_part(
        self, part: Part, scale: float, step: int, number: int, index: int
    ) -> Scalar:
        """Do the forward and backward pass of part ``index`` of a share."""
        with compiling_explained():
            loss = self.loss(part, step, number, self.number + self.count * index)
            (loss * scale).backward()  # type: ignore[no-untyped-call]
        return loss.detach() if self.async_metrics else loss.item()

    def try_to_learn(
        self, share: Batch, step: int, number: int, how: Manner
    ) -> Scalar | None:
        """Do what :meth:`learn` does, or return None where memory does not suffice."""
        return self.within_memory(lambda: self.learn(share, step, number, how))

    def within_memory(self, learn: Callable[[], Scalar]) -> Scalar | None:
        """Return what ``learn`` does, or None where memory does not suffice."""
        try:
            return learn()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        gc.collect()  # the error held on to what had been computed
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return None

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
        self, loss: LossFunction, model: Transformer, settings: TrainingSettings
    ) -> None:
        super().__init__()
        self.model = model
        self._loss = loss
        self._smoothing = settings.label_smoothing

    def forward(self, batch: Batch) -> Tensor:
        return self._loss(self.model, batch, smoothing=self._smoothing)


def parts_of(batch: Batch, most_places: int | None) -> list[Batch]:
    """Cut a batch so that no part has more places, of tokens and padding."""
    if most_places is None:
        return [batch]
    return batch.parts(min(len(batch), -(-batch.num_places // most_places)))


def seed_chance(seed: int, *place: int) -> None:
    """Make dropout a function of seed and place, whatever was drawn before."""
    mixed = np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)
    torch.manual_seed(int(mixed[0]))
