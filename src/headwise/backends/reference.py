"""The reference of all training backends: the model as it is written, with autograd."""

from __future__ import annotations

from torch import Tensor

from headwise.data.ragged_batch import Batch
from headwise.losses import cross_entropy
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
