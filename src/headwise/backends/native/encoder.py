"""An encoder alone by the C kernels, on a CPU: in training and in inference.

The vectors are those of ``EncoderOnly.encode``, or of ``PictureEncoder``, and the
gradients those of autograd; ``tests/backends/native/test_encoder.py``,
``test_train_encoder.py`` and ``test_patch_vectors.py`` hold them equal.
What is different: texts come without padding, as a batch holds them. In training the
activations are kept in one piece of memory (``csrc/train_encoder.c``) until the loss,
which heads in PyTorch compute, sends its gradient back; the threads that torch has
share a batch. In inference the weights are
packed once, until they change (``csrc/encoder.c``).

Letters used for sizes: N tokens of all texts, D model width; of pictures, R rows of a
table of vectors, E embedding width.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, pointer
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headwise.backends.api import AnyEncoder, WeightVersions
from headwise.backends.native.arrays_of_model import arrays_of_model
from headwise.backends.native.ctypes_structs import CrossKV, EncodeRequest, TrainBatch
from headwise.backends.native.functions import kernels
from headwise.backends.native.gradients import give_back, take_buffers
from headwise.backends.native.patch_vectors import look_up, trained_tensors
from headwise.backends.native.train_batch import Scratch, Sentences, run_in_threads
from headwise.backends.native.training import why_not_native, why_too_long
from headwise.backends.native.weights import NativeWeights
from headwise.backends.precision import Precision
from headwise.data.ragged_batch import RaggedTokens
from headwise.fork_safe_lock import ForkSafeLock
from headwise.model.picture_encoder import PictureEncoder
from headwise.model.sequence_model import SequenceModel


class NativeEncoding:
    """Encodes a batch in C, where the native library can be used."""

    def why_not(self, model: AnyEncoder, tokens: RaggedTokens) -> str | None:
        """Return why the C kernels do not encode ``tokens``, or None if they do."""
        if not len(tokens.tokens):
            return "there are no tokens"
        if torch.is_grad_enabled():
            longest = tokens.max_length + isinstance(model, PictureEncoder)
            return why_too_long(longest) or why_not_native(model)
        if model.training:
            return "the native backend applies dropout only if it computes gradients"
        return why_not_native(model)

    def encode(self, model: AnyEncoder, tokens: RaggedTokens) -> Float[Tensor, "N D"]:
        """Return a vector for each token: see :class:`EncodingBackend`.

        Raises ``DataError`` for tokens outside the vocabulary.
        """
        source, vectors = look_up(model, tokens)
        if not torch.is_grad_enabled():
            return _encoder_of(model).encode(source, vectors)
        batch = Sentences(source=source, vectors=vectors)
        encoded = _Encoding.apply(  # type: ignore[no-untyped-call]
            model, batch, *trained_tensors(model, vectors)
        )
        return cast(Tensor, encoded)


class _Part:
    """The sentences of a thread: what the forward pass leaves to the backward pass."""

    def __init__(
        self,
        model: AnyEncoder,
        sentences: Sentences,
        part: TrainBatch,
        trained: list[Tensor],
    ) -> None:
        longest, vectors = sentences.longest, sentences.vectors
        self.gradients = take_buffers(model, longest, trained, vectors)
        self._model = model
        self._batch = part
        arguments = byref(self.gradients.struct), byref(part)
        self.scratch = Scratch(model, kernels().encoder_train_bytes(*arguments))

    def forward(self, encoded: int) -> None:
        """Write the vectors of the sentences to the address of those of the batch."""
        self._call(kernels().encoder_forward, encoded)

    def backward(self, grad_encoded: int) -> None:
        """Compute the gradients of all weights, given those of the vectors."""
        self.gradients.set_to_zero()
        self._call(kernels().encoder_backward, grad_encoded)

    def give_back(self) -> None:
        """Let later batches have the memory."""
        self.scratch.give_back()
        give_back(self._model, self.gradients)

    def _call(self, function: Callable[..., None], vectors: int) -> None:
        struct = byref(self.gradients.struct)
        function(struct, byref(self._batch), vectors, self.scratch.address)


class _Encoding(torch.autograd.Function):
    """The output of the encoder as a function of all that C trains, for autograd."""

    @staticmethod
    def forward(
        ctx: Any, model: AnyEncoder, batch: Sentences, *tensors: Tensor
    ) -> Tensor:
        ctx.save_for_backward(*tensors)  # so that torch notes when they change
        ctx.batch = batch  # the parts point at its tokens
        trained = list(tensors)
        ctx.parts = [_Part(model, batch, each, trained) for each in batch.parts()]
        encoded = torch.empty(batch.num_tokens, model.config.d_model)
        address = encoded.data_ptr()
        run_in_threads([partial(each.forward, address) for each in ctx.parts])
        return encoded

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *of_output: Tensor) -> Any:
        # Raises torch's own errors: for a second backward pass without retain_graph,
        # and for weights that were changed in place since the forward pass.
        _ = ctx.saved_tensors
        grad_encoded = of_output[0].contiguous().float()
        address = grad_encoded.data_ptr()
        parts: list[_Part] = ctx.parts
        run_in_threads([partial(each.backward, address) for each in parts])
        total, *others = [each.gradients for each in parts]
        total.add(others)
        if torch._C._autograd._get_current_graph_task_keep_graph():  # retain_graph
            return None, None, *total.scaled_copies(1.0)
        # No other reference to them may exist: then torch does not copy them.
        gradients = total.hand_over()
        for each in parts:
            each.give_back()
        return None, None, *gradients


class NativeEncoder:
    """The output of an encoder on packed copies of its weights; see ``is_current``.

    Several threads may share it. Raises ``NativeLibraryError`` where there is no native
    library, and ``ModelError`` for a model whose weights are not float32 on a CPU.
    """

    def __init__(self, model: AnyEncoder, precision: Precision = "float32") -> None:
        self.weights = NativeWeights(arrays_of_model(model), precision)
        self._versions = WeightVersions(model)
        self.d_model = model.config.d_model

    def is_current(self, model: SequenceModel) -> bool:
        """Tell whether the copies are of ``model``'s weights as they are now."""
        return self._versions.are_of(model)

    def encode(
        self, texts: RaggedTokens, vectors: Float[Tensor, "R E"] | None = None
    ) -> Float[Tensor, "N D"]:
        """Return a vector for each token, text after text; tokens are not checked.

        They are rows of ``vectors``, if these are given, as for pictures.
        """
        tokens, positions = texts.tokens.contiguous(), texts.positions.contiguous()
        starts = texts.offsets.contiguous()
        longest = max(1, int(texts.lengths.max()))
        self.weights.ensure_source_positions(longest)
        encoded = torch.empty(len(tokens), self.d_model)
        table = None if vectors is None else vectors.detach().numpy()
        native, model = kernels(), byref(self.weights.with_source(table))
        only_starts = CrossKV(starts=starts.data_ptr())
        request = EncodeRequest(
            sentences=len(texts),
            tokens=tokens.data_ptr(),
            positions=positions.data_ptr(),
            cross=pointer(only_starts),
            encoded=encoded.data_ptr(),
            longest=longest,
        )
        floats = native.encode_scratch_floats(model, longest)
        scratch = np.empty(floats, dtype=np.float32)
        native.encode(model, byref(request), scratch.ctypes.data)
        return encoded


_encoders: WeakKeyDictionary[AnyEncoder, NativeEncoder] = WeakKeyDictionary()
"""The packed weights of each model; they hold no reference to it."""

_packing = ForkSafeLock()


def _encoder_of(model: AnyEncoder) -> NativeEncoder:
    with _packing.held():
        found = _encoders.get(model)
        if found is None or not found.is_current(model):
            found = _encoders[model] = NativeEncoder(model)
        return found
