"""Forward and backward pass of a batch by the C kernels, on a CPU.

Loss and gradients are those of ``Transformer.decode`` with autograd;
``tests/backends/native/test_training.py`` holds them equal. What is different: it is
one call (``csrc/train.c``), which computes the gradients with the loss, so that
``backward`` only returns them; sentences come without padding, as a batch holds them;
dropout masks are drawn again in the backward pass instead of being kept. It runs on one
core: data-parallel workers share a batch
(:mod:`headwise.training.cpu_data_parallel`).
"""

from __future__ import annotations

from ctypes import byref
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from headwise.backends.native.ctypes_structs import (
    ALIGNMENT,
    RaggedTokens,
    TrainBatch,
)
from headwise.backends.native.customization_check import find_customization
from headwise.backends.native.functions import kernels
from headwise.backends.native.gradients import GradientBuffers
from headwise.backends.native.library import why_unavailable
from headwise.backends.native.measured_speed import why_not_preferred
from headwise.backends.pytorch.install_fused import what_is_swapped
from headwise.data.ragged_batch import Batch
from headwise.errors import DataError
from headwise.model.activation_checkpointing import is_checkpointed
from headwise.model.sequence_model import SequenceModel
from headwise.model.transformer import Transformer

MAX_LENGTH = 512
"""Positions of a sentence up to which whole matrices of attention weights are kept;
their size grows with the square of the length."""


def why_not_native(model: SequenceModel) -> str | None:
    """Return why the C kernels do not train this model, or None if they do."""
    if not isinstance(model, Transformer):
        return "the native backend trains models of encoder and decoder"
    if model.config.positions == "rotary":
        return "the native backend has no rotary positions"
    if is_checkpointed(model):
        return "the native backend keeps activations (activation_checkpointing = true)"
    if any(
        type(each.data) is not Tensor  # a shard of a weight
        or each.dtype != torch.float32
        or each.device.type != "cpu"
        or not each.is_contiguous()
        for each in model.parameters()
    ):
        return "the native backend trains only whole float32 weights on a CPU"
    customization = find_customization(model) or what_is_swapped(model)
    if customization or model.backend == "native":
        return customization or why_unavailable()
    return why_not_preferred("training")


class NativeTraining:
    """Runs a batch in C, where the native library can be used."""

    def why_not(self, model: Transformer, batch: Batch) -> str | None:
        """Return why the C kernels do not run ``batch``, or None if they do."""
        if not torch.is_grad_enabled():
            return "the native backend computes a loss only with its gradients"
        if batch.max_length > MAX_LENGTH:
            return (
                f"the native backend trains on sentences of up to {MAX_LENGTH} tokens, "
                f"not {batch.max_length}"
            )
        return why_not_native(model)

    def loss(self, model: Transformer, batch: Batch, *, smoothing: float) -> Tensor:
        """Return the summed cross-entropy: see :class:`TrainingBackend`.

        Raises ``DataError`` for tokens outside the vocabulary.
        """
        sentences = _Sentences(batch, smoothing)
        target_size = model.target_vocab_size
        sizes = model.source_vocab_size, target_size, target_size
        for tokens, size in zip(sentences.tokens, sizes, strict=True):
            # The kernels do not check it.
            least, most = int(tokens.min()), int(tokens.max())
            if not 0 <= least <= most < size:
                raise DataError(
                    f"a batch holds tokens from {least} to {most}, but the model's "
                    f"vocabulary goes from 0 to {size - 1}; was the corpus prepared "
                    "for another one?"
                )
        loss = _NativeLoss.apply(  # type: ignore[no-untyped-call]
            model, sentences, *model.parameters()
        )
        return cast(Tensor, loss)


class _Sentences:
    """A batch for C; ``struct`` points at what this object keeps."""

    def __init__(self, batch: Batch, smoothing: float) -> None:
        sides = batch.source, batch.decoder_input, batch.target
        self.tokens = [side.tokens.contiguous() for side in sides]
        self.offsets = [side.offsets.contiguous() for side in sides]
        self.longest = max(int(side.lengths.max()) for side in sides)
        source, decoder_input, targets = (each.data_ptr() for each in self.tokens)
        starts = [each.data_ptr() for each in self.offsets]
        self.struct = TrainBatch(
            sentences=len(batch),
            source=RaggedTokens(source, starts[0]),
            decoder_input=RaggedTokens(decoder_input, starts[1]),
            targets=targets,
            smoothing=smoothing,
            seed=int(torch.randint(2**62, (1,))),
        )


_free_scratch: WeakKeyDictionary[Transformer, list[NDArray[np.uint8]]] = (
    WeakKeyDictionary()
)
"""Scratch memory for reuse: to allocate it anew would take a tenth of the time."""


def _take_scratch(model: Transformer, size: int) -> NDArray[np.uint8]:
    while _free_scratch.get(model):
        scratch = _free_scratch[model].pop()
        if len(scratch) >= size:
            return scratch
    return np.empty(size, dtype=np.uint8)


class _NativeLoss(torch.autograd.Function):
    """The loss as a function of all weights, as autograd sees it.

    So ``torch.autograd.grad``, ``retain_graph`` and hooks of the graph work. The
    gradients of a batch are summed apart from earlier ones, as torch does it, so that
    batches give the same sum in one process and in several.
    """

    @staticmethod
    def forward(
        ctx: Any,
        model: Transformer,
        batch: _Sentences,
        *weights: Tensor,
    ) -> Tensor:
        native = kernels()
        ctx.save_for_backward(*weights)  # so that torch notes when they change
        ctx.gradients = GradientBuffers(model, batch.longest)
        arguments = byref(ctx.gradients.struct), byref(batch.struct)
        size = native.train_scratch_bytes(*arguments) + ALIGNMENT
        scratch = _take_scratch(model, size)
        begin = -(-scratch.ctypes.data // ALIGNMENT) * ALIGNMENT
        loss = native.forward_backward(*arguments, begin)
        _free_scratch.setdefault(model, []).append(scratch)
        return weights[0].new_tensor(loss)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *scales: Tensor) -> Any:
        # Raises torch's own errors: for a second backward pass without retain_graph,
        # and for weights that were changed in place since the forward pass.
        _ = ctx.saved_tensors
        scale = scales[0].item()
        if torch._C._autograd._get_current_graph_task_keep_graph():  # retain_graph
            return None, None, *ctx.gradients.scaled_copies(scale)
        gradients, ctx.gradients = ctx.gradients, None
        # No other reference to them may exist: then torch does not copy them.
        return None, None, *gradients.scaled(scale)
