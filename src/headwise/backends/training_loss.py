"""The training loss of a batch by the backend that is installed: native or PyTorch."""

from __future__ import annotations

from torch import Tensor

from headwise.backends.native.training import native_loss, trains_natively
from headwise.backends.pytorch.unpadded_forward import decode_packed
from headwise.data.batches import Batch
from headwise.losses import cross_entropy, projected_cross_entropy
from headwise.model.transformer import Transformer


def cross_entropy_of(model: Transformer, batch: Batch, *, smoothing: float) -> Tensor:
    """Sum the cross-entropy over the real target tokens of ``batch``, in nats."""
    source_is_real, target_is_real = batch.source_is_real, batch.target_is_real
    if trains_natively(model, max(batch.source.shape[1], batch.target_in.shape[1])):
        return native_loss(
            *(model, batch.source, batch.target_in, batch.target_out),
            *(source_is_real, target_is_real, smoothing),
        )
    hidden = decode_packed(
        *(model, batch.source, batch.target_in, source_is_real, target_is_real)
    )
    targets = batch.target_out[target_is_real]
    if model.backend == "reference":
        return cross_entropy(model.logits(hidden), targets, smoothing)
    return projected_cross_entropy(
        hidden, model.output_vectors, model.output.bias, targets, smoothing
    )
