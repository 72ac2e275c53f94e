"""What every backend offers, for decoding and for training.

Decoders: :class:`NativeDecoder` (C kernels, on a CPU), :class:`CudaGraphDecoder` and
:class:`TorchDecoder`; :mod:`headwise.backends.select_decoder` chooses. The reference of
all is ``Transformer.start`` and ``step``.

Training: :class:`NativeTraining` (C kernels, on a CPU), :class:`TorchTraining`,
:class:`TorchCompileTraining` and :class:`ReferenceTraining`;
:mod:`headwise.backends.select_training` chooses. The reference of all is
``Transformer.decode`` with autograd.

``tests/backends`` holds each of them equal to its reference.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeVar

from torch import Tensor

from headwise.model.transformer import Transformer

Precision = Literal["float32", "bf16"]
"""Format of the copied weights and of the KV cache."""


class DecoderBackend(Protocol):
    """A model for incremental decoding, with copies of its weights and a KV cache.

    A state has ``index_select(index)``, which selects and reorders its rows. The native
    and the CUDA backend also decode several greedy steps in one call
    (``decode_greedily``), the native one returns the top-k of a step (``step_topk``):
    see the protocols of ``decoding.incremental_decoder``.
    """

    def is_current(self, model: Transformer) -> bool:
        """Tell whether the copies are of ``model``'s weights as they are now."""
        ...

    def start(self, source: Tensor, source_is_real: Tensor) -> Any:
        """Encode sources [N S]; return a state with one row for each."""
        ...

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Append one token to every row [B]; return the scores [B V] of the next."""
        ...


AnyBatch = TypeVar("AnyBatch", contravariant=True)
"""A ``Batch``, or a ``PackedBatch`` for torch.compile."""


class TrainingBackend(Protocol[AnyBatch]):
    """Forward and backward pass of a batch, as a loss that autograd differentiates."""

    def why_not(self, model: Transformer, batch: AnyBatch) -> str | None:
        """Return why this backend cannot run ``batch``, or None if it can."""
        ...

    def loss(self, model: Transformer, batch: AnyBatch, *, smoothing: float) -> Tensor:
        """Return the cross-entropy, summed over the target tokens, in nats.

        Its ``backward`` adds the gradients of all weights to ``.grad``.
        """
        ...


class WeightVersions:
    """Tells whether a model's weights have changed since copies were made of them."""

    def __init__(self, model: Transformer) -> None:
        self._parameters = list(model.parameters())
        self._versions = self._now()

    def are_of(self, model: Transformer) -> bool:
        """Tell whether these are the weights of ``model``, unchanged."""
        same = next(model.parameters()) is self._parameters[0]
        return same and self._versions == self._now()

    def _now(self) -> list[tuple[int, int]]:
        return [
            (each.data_ptr(), 0 if each.is_inference() else each._version)
            for each in self._parameters
        ]
