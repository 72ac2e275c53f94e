"""Forward and backward pass of one micro-batch, as run by each worker."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from headwise.backends.api import GenerativeModel
from headwise.backends.cuda.cuda_graph_training import CudaGraphTraining
from headwise.backends.distillation import WHY_NOT_NATIVE, Teachers
from headwise.backends.native.measured_speed import fastest_precision
from headwise.backends.native.training import why_not_native, why_too_long
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.pytorch.torch_compile_training import (
    TorchCompileTraining,
    explain_compile_errors,
)
from headwise.consistency import Consistency, TwoPassLoss
from headwise.data.doubled_batch import double_batch
from headwise.data.ragged_batch import Batch
from headwise.data.sequence_packing import PackedBatch
from headwise.distillation import DistillationLoss
from headwise.errors import is_out_of_memory
from headwise.model.activation_checkpointing import checkpoint_activations
from headwise.model.heads import MaskedTokenHead
from headwise.model.sequence_model import SequenceModel
from headwise.model.transformer import Transformer
from headwise.openmp import torch_in_all_threads
from headwise.training.settings import TrainingSettings
from headwise.training.step_result import SummedLoss

MicroBatch = Batch | PackedBatch
"""What one forward and backward pass takes: a batch, or packed sequences."""

LossFunction = Callable[..., Tensor]
"""(model, batch, smoothing=...) -> the loss, summed over target tokens, in nats."""

AnyLoss = Tensor | TwoPassLoss | DistillationLoss
"""The loss of a micro-batch, alone or with what it consists of."""

TwoPassLossFunction = Callable[..., TwoPassLoss]
"""(model, doubled batch, smoothing=..., consistency=...) -> the loss of both passes."""


def prepare_model(model: SequenceModel, settings: TrainingSettings) -> None:
    """Install what decides how ``model`` trains: backend, activation checkpointing."""
    use_backend(model, settings.backend)
    if settings.activation_checkpointing:
        checkpoint_activations(model)


def consistency_of(settings: TrainingSettings) -> Consistency | None:
    """Return how settings hold two passes together; None: there is one."""
    if settings.r_drop:
        return Consistency.r_drop(settings.r_drop)
    if settings.simcut:
        return Consistency.simcut(settings.simcut, settings.simcut_rate)
    return None


class MicroBatchLoss(NamedTuple):
    """Sums over the target tokens of a micro-batch, in nats."""

    total: Tensor
    """The loss, which autograd differentiates."""

    kl_divergence: Tensor | None = None
    """The divergence in it, before its weight: of two passes, or from teachers."""

    cross_entropy: Tensor | None = None
    """The rest of it, before its weight, if that is not 1."""


class MicroBatchRunner:
    """Runs forward and backward passes; adds gradients to ``.grad`` of ``model``.

    This is data-parallel worker ``worker`` of ``num_workers``; 0 is the main process.
    """

    def __init__(
        self,
        loss: LossFunction,
        model: SequenceModel,
        settings: TrainingSettings,
        *,
        seed: int,
        worker: int = 0,
        num_workers: int = 1,
        two_pass_loss: TwoPassLossFunction | None = None,
        teachers: Teachers | None = None,
    ) -> None:
        """``two_pass_loss`` is needed if the settings ask for two passes.

        ``teachers`` are those of the settings, if there are any.
        """
        self.model = model
        self.settings = settings
        self.seed = seed
        self.worker = worker
        self.num_workers = num_workers
        self.device = model.device
        prepare_model(model, settings)
        self.torch_compile: TorchCompileTraining | None = None
        """The backend for packed batches, if that was chosen."""

        self._loss = loss
        self._two_pass_loss = two_pass_loss
        self._teachers = teachers
        self._consistency = consistency_of(settings)
        self._loss_module: _LossModule | None = None
        self._scores_words = any(
            isinstance(each, MaskedTokenHead) for each in model.modules()
        )
        self.cuda_graphs: CudaGraphTraining | None = None
        """What replays packed batches on a GPU; it needs all activations in memory."""

        if settings.backend == "torch_compile":
            self.torch_compile = TorchCompileTraining(settings.batch_tokens)
            if self.device.type == "cuda" and not settings.activation_checkpointing:
                self.cuda_graphs = CudaGraphTraining(model, self._packed_loss)
        self.async_metrics = (
            settings.backend == "torch_compile"
            and self.device.type == "cuda"
            and settings.not_finite == "stop"
        )
        """Whether losses stay on the device, to be read one step late."""

    def loss(self, micro_batch: MicroBatch, *rng_key: int) -> MicroBatchLoss:
        """Return the summed loss, in nats, as a tensor that knows its gradient.

        Dropout masks, and what SimCut cuts, are drawn from the seed and ``rng_key``.
        """
        seed_rng(self.seed, *rng_key)
        if self._consistency is not None:
            assert isinstance(micro_batch, Batch)
            micro_batch = double_batch(micro_batch, self._consistency.cut_rate)
        with self._autocast():
            compute = self._loss_module or self._bound_loss()
            found = compute(micro_batch.to(self.device))
        if isinstance(found, TwoPassLoss):
            return MicroBatchLoss(*found)
        if isinstance(found, DistillationLoss):
            return MicroBatchLoss(found.total, found.kl_divergence, found.cross_entropy)
        return MicroBatchLoss(found)

    def _autocast(self) -> torch.autocast:
        """Return the context that multiplies matrices in ``precision``."""
        enabled = self.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=enabled)

    def _bound_loss(self) -> Callable[[MicroBatch], AnyLoss]:
        """Return what computes the loss of a batch: without a frame of its own."""
        smoothing = self.settings.label_smoothing
        if self._teachers is not None:
            model = cast(GenerativeModel, self.model)
            return partial(self._teachers.loss, model, smoothing=smoothing)
        if self._consistency is None:
            compiled = self.torch_compile
            loss: LossFunction = self._loss if compiled is None else compiled.loss
            return partial(loss, self.model, smoothing=smoothing)
        assert self._two_pass_loss is not None
        return partial(
            self._two_pass_loss,
            self.model,
            smoothing=smoothing,
            consistency=self._consistency,
        )

    def make_loss_module(self) -> nn.Module:
        """Compute the loss by a module from now on, for FSDP2 to shard; return it."""
        self._loss_module = _LossModule(self._bound_loss(), self.model)
        return self._loss_module

    def micro_batches(
        self, batch: Batch, max_padded_tokens: int | None
    ) -> list[MicroBatch]:
        """Split ``batch`` into micro-batches of at most ``max_padded_tokens``."""
        if self.torch_compile is not None:
            return [*self.torch_compile.micro_batches(batch, max_padded_tokens)]
        return [*split_batch(batch, max_padded_tokens)]

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """Run without torch.compile, so that forward hooks are called."""
        if self.torch_compile is not None:
            self.torch_compile.is_compiled = False
        try:
            yield
        finally:
            if self.torch_compile is not None:
                self.torch_compile.is_compiled = True

    def run(
        self,
        micro_batches: Sequence[MicroBatch],
        loss_scale: float,
        step: int,
        number: int,
        first_index: int = 0,
    ) -> SummedLoss | None:
        """Run forward and backward over the micro-batches of batch ``number``.

        Returns the summed loss, unscaled, or None if this worker ran out of memory.
        """
        total = SummedLoss(0.0)
        try:
            for index, micro_batch in enumerate(micro_batches, first_index):
                with explain_compile_errors(), self._threads_of(micro_batch):
                    rng_index = self.worker + self.num_workers * index
                    key = step, number, rng_index
                    if self.cuda_graphs is not None:
                        loss = self._replay(
                            self.cuda_graphs, micro_batch, loss_scale, key
                        )
                    else:
                        loss = self.loss(micro_batch, *key)
                        scaled = loss.total * loss_scale
                        scaled.backward()  # type: ignore[no-untyped-call]
                total += self._sums(loss)
            return total
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        if self.cuda_graphs is not None:
            self.cuda_graphs.release()
        gc.collect()  # the traceback kept activations alive
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return None

    def _replay(
        self,
        graphs: CudaGraphTraining,
        micro_batch: MicroBatch,
        loss_scale: float,
        rng_key: tuple[int, ...],
    ) -> MicroBatchLoss:
        """Run forward and backward as a CUDA graph; return the loss."""
        assert isinstance(micro_batch, PackedBatch)
        graphs.prepare(micro_batch)
        seed_rng(self.seed, *rng_key)
        return MicroBatchLoss(graphs.run(micro_batch, loss_scale))

    def _packed_loss(self, batch: PackedBatch) -> Tensor:
        """Return the loss of a batch on the device, whose dropout is seeded."""
        assert self.torch_compile is not None
        model, smoothing = cast(Transformer, self.model), self.settings.label_smoothing
        with self._autocast():
            return self.torch_compile.loss(model, batch, smoothing=smoothing)

    def _threads_of(self, micro_batch: MicroBatch) -> AbstractContextManager[None]:
        """Return the context of a pass: torch has all threads for much work.

        That is what is too long for kernels, and the scores of masked tokens, which are
        multiplied with the whole vocabulary.
        """
        is_long = isinstance(micro_batch, Batch) and why_too_long(
            micro_batch.max_length
        )
        return (
            torch_in_all_threads() if is_long or self._scores_words else nullcontext()
        )

    def _sums(self, found: MicroBatchLoss) -> SummedLoss:
        if found.kl_divergence is None:
            total = found.total
            return SummedLoss(total.detach() if self.async_metrics else total.item())
        kl = found.kl_divergence.item()
        if found.cross_entropy is not None:
            return SummedLoss(found.cross_entropy.item(), kl)
        assert self._consistency is not None
        return SummedLoss(found.total.item() - self._consistency.weight * kl, kl)

    @property
    def precision(self) -> str:
        """The dtype of matrix products: ``float32``, or ``bf16`` where it is faster."""
        if self.settings.precision != "auto":
            return self.settings.precision
        if self.trains_natively and (measured := fastest_precision()):
            return measured
        gains = self.device.type != "cpu" or torch.cpu._is_amx_tile_supported()
        return "bf16" if gains else "float32"

    @cached_property
    def trains_natively(self) -> bool:
        """Whether the native backend trains the model, first asked before step 1."""
        return self.why_not_native() is None

    def why_not_native(self) -> str | None:
        """Return why the native backend does not train the model; None if it does."""
        backend = self.settings.backend
        if backend not in ("auto", "native"):
            return f"training.backend = {backend!r} is another"
        return WHY_NOT_NATIVE if self._teachers else why_not_native(self.model)


class _LossModule(nn.Module):
    """The loss as a module, so that FSDP2 sees a whole pass as one ``forward``."""

    def __init__(
        self,
        loss: Callable[[MicroBatch], AnyLoss],
        model: SequenceModel,
    ) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, batch: Batch) -> AnyLoss:
        return self._loss(batch)


def split_batch(batch: Batch, max_padded_tokens: int | None) -> list[Batch]:
    """Split ``batch`` by rows into parts of at most ``max_padded_tokens``.

    Parts have about equally many rows, so one may exceed the limit by less than a row.
    None does not split.
    """
    if max_padded_tokens is None:
        return [batch]
    return batch.parts(min(len(batch), -(-batch.padded_tokens // max_padded_tokens)))


def seed_rng(seed: int, *key: int) -> None:
    """Seed torch's RNG from (seed, step, batch, part), so dropout is reproducible."""
    mixed = np.random.SeedSequence([seed, *key]).generate_state(1, np.uint64)
    torch.manual_seed(int(mixed[0]))
