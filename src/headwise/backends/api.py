"""What every backend offers: decoders, encoders and training.

Decoders: :class:`NativeDecoder` (C kernels, on a CPU), :class:`CudaGraphDecoder` and
:class:`TorchDecoder`; of a decoder alone, :class:`NativeDecoderOnly`; of any other
model, :class:`ReferenceDecoder`; :mod:`headwise.backends.select_decoder` chooses. The
reference of all is ``start`` and ``step`` of the model.

Training: :class:`NativeTraining` (C kernels, on a CPU), :class:`TorchTraining`,
:class:`TorchCompileTraining` and :class:`ReferenceTraining`;
:mod:`headwise.backends.select_training` chooses. The reference of all is ``decode`` of
the model with autograd.

Encoders alone, in training and in inference: :class:`NativeEncoding` (C kernels, on a
CPU), :class:`TorchEncoding` and :class:`ReferenceEncoding`;
:mod:`headwise.backends.select_encoder` chooses. The reference of all is
``EncoderOnly.encode``, or ``PictureEncoder``, with autograd.

``tests/backends`` holds each of them equal to its reference.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from torch import Tensor

from headwise.consistency import Consistency, TwoPassLoss
from headwise.data.ragged_batch import RaggedTokens
from headwise.model.decoder_only import DecoderOnly
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.encoder_only import EncoderOnly
from headwise.model.picture_encoder import PictureEncoder
from headwise.model.sequence_model import SequenceModel


class DecoderBackend(Protocol):
    """A model for incremental decoding, with copies of its weights and a KV cache.

    A state has ``index_select(index)``, which selects and reorders its rows. The native
    and the CUDA backend also decode several greedy steps in one call
    (``decode_greedily``), the native one returns the top-k of a step (``step_topk``):
    see the protocols of ``decoding.incremental_decoder``.
    """

    def is_current(self, model: SequenceModel) -> bool:
        """Tell whether the copies are of ``model``'s weights as they are now."""
        ...

    def start(self, source: Tensor, source_is_real: Tensor) -> Any:
        """Encode sources [N S]; return a state with one row for each.

        A decoder alone has prompts instead, which follow the first token that is
        stepped.
        """
        ...

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Append one token to every row [B]; return the scores [B V] of the next."""
        ...


GenerativeModel = EncoderDecoder | DecoderOnly
"""A model that predicts the next token, and so can generate text."""

AnyEncoder = EncoderOnly | PictureEncoder
"""An encoder alone, of texts or of pictures, on which heads stand."""

AnyModel = TypeVar("AnyModel", contravariant=True)
AnyBatch = TypeVar("AnyBatch", contravariant=True)
"""A ``Batch``, or a ``PackedBatch`` for torch.compile."""


class TrainingBackend(Protocol[AnyModel, AnyBatch]):
    """Forward and backward pass of a batch, as a loss that autograd differentiates."""

    def why_not(self, model: AnyModel, batch: AnyBatch) -> str | None:
        """Return why this backend cannot run ``batch``, or None if it can."""
        ...

    def loss(self, model: AnyModel, batch: AnyBatch, *, smoothing: float) -> Tensor:
        """Return the cross-entropy, summed over the target tokens, in nats.

        Those that the batch does not count (``Batch.counted``) are left out. A decoder
        alone reads the decoder input, and no source.
        Its ``backward`` adds the gradients of all weights to ``.grad``.
        """
        ...


class TwoPassBackend(TrainingBackend[AnyModel, AnyBatch], Protocol):
    """A training backend that also runs doubled batches (``data/doubled_batch.py``)."""

    def two_pass_loss(
        self,
        model: AnyModel,
        batch: AnyBatch,
        *,
        smoothing: float,
        consistency: Consistency,
    ) -> TwoPassLoss:
        """Return the loss of both passes, summed over the target tokens of one."""
        ...


class EncodingBackend(Protocol):
    """Forward pass of an encoder alone, which autograd differentiates if it is on."""

    def why_not(self, model: AnyEncoder, tokens: RaggedTokens) -> str | None:
        """Return why this backend cannot encode ``tokens``, or None if it can."""
        ...

    def encode(self, model: AnyEncoder, tokens: RaggedTokens) -> Tensor:
        """Return a vector for each token [N D], text after text, without padding.

        Tokens of pictures are patches; the [class] token has a vector before those of
        each picture.
        """
        ...


class WeightVersions:
    """Tells whether a model's weights have changed since copies were made of them."""

    def __init__(self, model: SequenceModel) -> None:
        self._parameters = list(model.parameters())
        self._versions = self._now()

    def are_of(self, model: SequenceModel) -> bool:
        """Tell whether these are the weights of ``model``, unchanged."""
        same = next(model.parameters()) is self._parameters[0]
        return same and self._versions == self._now()

    def _now(self) -> list[tuple[int, int]]:
        return [
            (each.data_ptr(), 0 if each.is_inference() else each._version)
            for each in self._parameters
        ]
