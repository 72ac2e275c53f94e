"""Training by PyTorch: fused functions, and no padding outside attention."""

from __future__ import annotations

from torch import Tensor

from headwise.backends.pytorch.unpadded_forward import decode_unpadded
from headwise.data.ragged_batch import Batch
from headwise.losses import projected_cross_entropy
from headwise.model.transformer import Transformer


class TorchTraining:
    """Runs a batch without padding; it can run any model.

    The model needs the functions of :mod:`headwise.backends.pytorch.install_fused`.
    """

    def why_not(self, model: Transformer, batch: Batch) -> str | None:
        """Return None: see :class:`TrainingBackend`."""
        return None

    def loss(self, model: Transformer, batch: Batch, *, smoothing: float) -> Tensor:
        """Return the summed cross-entropy: see :class:`TrainingBackend`."""
        hidden = decode_unpadded(model, batch.source, batch.decoder_input)
        return projected_cross_entropy(
            hidden,
            model.output_vectors,
            model.output.bias,
            batch.target.tokens,
            smoothing,
        )
