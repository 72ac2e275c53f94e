"""The reference of all backends: the model as it is written, with autograd."""

from __future__ import annotations

from torch import Tensor

from headwise.backends.api import WeightVersions
from headwise.data.ragged_batch import Batch
from headwise.losses import cross_entropy
from headwise.model.kv_cache import DecoderState
from headwise.model.transformer import Transformer


class ReferenceTraining:
    """Runs padded batches through ``Transformer.decode``; it can run any model."""

    def why_not(self, model: Transformer, batch: Batch) -> str | None:
        """Return None: see :class:`TrainingBackend`."""
        return None

    def loss(self, model: Transformer, batch: Batch, *, smoothing: float) -> Tensor:
        """Return the summed cross-entropy: see :class:`TrainingBackend`."""
        source, target = batch.source, batch.decoder_input
        hidden = model.decode(source.padded(), target.padded(), source.is_real)
        logits = model.logits(hidden[target.is_real])
        return cross_entropy(logits, batch.target.tokens, smoothing)


class ReferenceDecoder:
    """Decodes with ``Transformer.start`` and ``step``; it can run any model.

    The model computes in its own number format, and in evaluation mode if it is in it.
    """

    def __init__(self, model: Transformer) -> None:
        self._versions = WeightVersions(model)
        self._model = model

    def is_current(self, model: Transformer) -> bool:
        """Tell whether this is ``model``: see :class:`DecoderBackend`."""
        return model is self._model and self._versions.are_of(model)

    def start(self, source: Tensor, source_is_real: Tensor) -> DecoderState:
        """Encode sources [N S]; return a state with one row for each."""
        return self._model.start(source, source_is_real)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Append one token to every row [B]; return the scores [B V] of the next."""
        return self._model.step(tokens, state)
