"""Forward and backward pass of a batch by the C kernels, on a CPU.

Loss and gradients are those of ``Transformer.decode``, or ``DecoderOnly.decode``, with
autograd; ``tests/backends/native/test_training.py`` and ``test_train_decoder_only.py``
hold them equal. What is different: it is one call (``csrc/train.c``), which computes
the gradients with the loss, so that ``backward`` only returns them; sentences come
without padding, as a batch holds them; dropout masks are drawn again in the backward
pass instead of being kept.

The threads that torch has share a batch, or the part of it that a data-parallel worker
has (:mod:`headwise.training.cpu_data_parallel`).
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from headwise.backends.api import GenerativeModel
from headwise.backends.native.ctypes_structs import BatchLoss, TrainBatch
from headwise.backends.native.customization_check import (
    find_customization,
    is_known,
    named_parts,
)
from headwise.backends.native.functions import kernels
from headwise.backends.native.gradients import (
    GradientBuffers,
    give_back,
    take_buffers,
)
from headwise.backends.native.library import why_unavailable
from headwise.backends.native.measured_speed import why_not_preferred
from headwise.backends.native.patch_vectors import look_up, trained_tensors
from headwise.backends.native.stack_modules import NativeModel
from headwise.backends.native.train_batch import (
    NOT_COUNTED,
    Scratch,
    Sentences,
    check_vocabulary,
    run_in_threads,
)
from headwise.backends.pytorch.install_fused import what_is_swapped
from headwise.backends.reference import why_reference_only
from headwise.consistency import Consistency, TwoPassLoss
from headwise.data.ragged_batch import Batch
from headwise.model.activation_checkpointing import is_checkpointed
from headwise.model.decoder_only import DecoderOnly
from headwise.model.sequence_model import SequenceModel
from headwise.model.transformer import Transformer

MAX_LENGTH = 512
"""Positions of a sentence up to which whole matrices of attention weights are kept;
their size grows with the square of the length."""


def why_too_long(longest: int) -> str | None:
    """Return why the C kernels do not train such long sentences, or None if they do."""
    if longest <= MAX_LENGTH:
        return None
    return (
        f"the native backend trains on sentences of up to {MAX_LENGTH} tokens, not "
        f"{longest}"
    )


def why_not_native(model: SequenceModel) -> str | None:
    """Return why the C kernels do not train this model, or None if they do.

    Of a model that contains another, such as an encoder with a head, they train that
    part.
    """
    parts = named_parts(model)
    if not any(is_known(module) for _, module in parts.modules):
        return f"the native backend does not know a {type(model).__name__}"
    if reason := why_reference_only(model):
        return reason
    if is_checkpointed(module for _, module in parts.modules):
        return "the native backend keeps activations (activation_checkpointing = true)"
    if any(
        type(each.data) is not Tensor  # a shard of a weight
        or each.dtype != torch.float32
        or not each.is_cpu
        or not each.is_contiguous()
        for _, each in parts.weights
    ):
        return "the native backend trains only whole float32 weights on a CPU"
    customization = find_customization(model, parts) or what_is_swapped(parts.modules)
    if customization or model.backend == "native":
        return customization or why_unavailable()
    return why_not_preferred("training")


class NativeTraining:
    """Runs a batch in C, where the native library can be used."""

    def why_not(self, model: GenerativeModel, batch: Batch) -> str | None:
        """Return why the C kernels do not run ``batch``, or None if they do."""
        if not torch.is_grad_enabled():
            return "the native backend computes a loss only with its gradients"
        has_source = isinstance(model, Transformer)
        longest = batch.max_length if has_source else batch.target.max_length
        return why_too_long(longest) or why_not_native(model)

    def loss(self, model: GenerativeModel, batch: Batch, *, smoothing: float) -> Tensor:
        """Return the summed cross-entropy: see :class:`TrainingBackend`.

        Raises ``DataError`` for tokens outside the vocabulary.
        """
        sentences, tensors = _read(model, batch, smoothing, None)
        loss, _ = _NativeLoss.apply(  # type: ignore[no-untyped-call]
            model, sentences, *tensors
        )
        return cast(Tensor, loss)

    def two_pass_loss(
        self,
        model: GenerativeModel,
        batch: Batch,
        *,
        smoothing: float,
        consistency: Consistency,
    ) -> TwoPassLoss:
        """Return the loss of both passes: see :class:`TwoPassBackend`.

        Raises ``DataError`` for tokens outside the vocabulary.
        """
        sentences, tensors = _read(model, batch, smoothing, consistency)
        losses = _NativeLoss.apply(  # type: ignore[no-untyped-call]
            model, sentences, *tensors
        )
        return TwoPassLoss(*losses)


def _read(
    model: GenerativeModel,
    batch: Batch,
    smoothing: float,
    consistency: Consistency | None,
) -> tuple[Sentences, list[Tensor]]:
    """Return a batch as C reads it, and what C trains.

    Raises ``DataError`` for tokens outside the vocabulary.
    """
    target, decoder_input = batch.target, batch.decoder_input
    if isinstance(model, DecoderOnly):
        size, source, vectors = model.vocab_size, None, None
    else:
        assert isinstance(model, Transformer)
        size = model.target_vocab_size
        source, vectors = look_up(model, batch.source)
    check_vocabulary(target.tokens, size)
    check_vocabulary(decoder_input.tokens, size)
    targets = target.tokens
    if batch.counted is not None:
        targets = targets.masked_fill(~batch.counted, NOT_COUNTED)
    sentences = Sentences(
        source=source,
        vectors=vectors,
        decoder_input=decoder_input,
        targets=targets,
        smoothing=smoothing,
        consistency=consistency,
    )
    return sentences, trained_tensors(model, vectors)


class _NativeLoss(torch.autograd.Function):
    """The loss as a function of all that C trains, as autograd sees it.

    The divergence between two passes is returned beside it, 0 of a single one.

    So ``torch.autograd.grad``, ``retain_graph`` and hooks of the graph work. The
    gradients of a batch are summed apart from earlier ones, as torch does it, so that
    batches give the same sum in one process and in several.
    """

    @staticmethod
    def forward(
        ctx: Any,
        model: GenerativeModel,
        batch: Sentences,
        *tensors: Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(*tensors)  # so that torch notes when they change
        assert isinstance(model, NativeModel)
        parts = batch.parts()
        trained = list(tensors)
        buffers = [
            take_buffers(model, batch.longest, trained, batch.vectors) for _ in parts
        ]
        native, calls, scratch = kernels(), [], []
        for gradients, part in zip(buffers, parts, strict=True):
            size = native.train_scratch_bytes(byref(gradients.struct), byref(part))
            memory = Scratch(model, size)
            run = native.forward_backward
            calls.append(partial(_run_part, run, gradients, part, memory.address))
            scratch.append(memory)
        losses = run_in_threads(calls)
        for memory in scratch:
            memory.give_back()
        ctx.gradients, ctx.model = buffers, model
        divergence = tensors[0].new_tensor(sum(each.divergence for each in losses))
        ctx.mark_non_differentiable(divergence)
        return tensors[0].new_tensor(sum(each.total for each in losses)), divergence

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *scales: Tensor) -> Any:
        # Raises torch's own errors: for a second backward pass without retain_graph,
        # and for weights that were changed in place since the forward pass.
        _ = ctx.saved_tensors
        scale = scales[0].item()
        total, *others = ctx.gradients
        if torch._C._autograd._get_current_graph_task_keep_graph():  # retain_graph
            total.add(others)
            ctx.gradients = [total]
            return None, None, *total.scaled_copies(scale)
        ctx.gradients = None
        total.add(others, scale)
        # No other reference to them may exist: then torch does not copy them.
        gradients = total.hand_over()
        for each in (total, *others):
            give_back(ctx.model, each)
        return None, None, *gradients


def _run_part(
    forward_backward: Callable[..., BatchLoss],
    gradients: GradientBuffers,
    part: TrainBatch,
    memory: int,
) -> BatchLoss:
    """Run forward and backward pass over the sentences of a thread."""
    gradients.set_to_zero()
    return forward_backward(byref(gradients.struct), byref(part), memory)
