"""Training and encoding by PyTorch: fused, and no padding outside attention."""

from __future__ import annotations

from torch import Tensor

from headwise.backends.api import AnyEncoder, GenerativeModel
from headwise.backends.pytorch.unpadded_forward import (
    decode_only_unpadded,
    decode_unpadded,
    encode_unpadded,
)
from headwise.backends.reference import encode_pictures, why_reference_only
from headwise.consistency import (
    Consistency,
    TwoPassLoss,
    projected_two_pass_loss,
)
from headwise.data.doubled_batch import is_second_pass
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.losses import projected_cross_entropy
from headwise.model.decoder_only import DecoderOnly
from headwise.model.picture_encoder import PictureEncoder
from headwise.model.transformer import Transformer


class TorchTraining:
    """Runs a batch without padding, of any model without interventions or variants.

    The model needs the functions of :mod:`headwise.backends.pytorch.install_fused`.
    """

    def why_not(self, model: GenerativeModel, batch: Batch) -> str | None:
        """Return why a model needs the reference: see :class:`TrainingBackend`."""
        return why_reference_only(model)

    def loss(self, model: GenerativeModel, batch: Batch, *, smoothing: float) -> Tensor:
        """Return the summed cross-entropy: see :class:`TrainingBackend`."""
        hidden, targets = _decode(model, batch), batch.target.tokens
        if batch.counted is not None:
            hidden, targets = hidden[batch.counted], targets[batch.counted]
        return projected_cross_entropy(
            hidden, model.output_vectors, model.output.bias, targets, smoothing
        )

    def two_pass_loss(
        self,
        model: GenerativeModel,
        batch: Batch,
        *,
        smoothing: float,
        consistency: Consistency,
    ) -> TwoPassLoss:
        """Return the loss of both passes: see :class:`TwoPassBackend`."""
        hidden, targets = _decode(model, batch), batch.target.tokens
        is_second = is_second_pass(batch.target)
        first, second = ~is_second, is_second
        if batch.counted is not None:
            first, second = first & batch.counted, second & batch.counted
        return projected_two_pass_loss(
            hidden[first],
            hidden[second],
            model.output_vectors,
            model.output.bias,
            targets[first],
            smoothing,
            consistency,
        )


def _decode(model: GenerativeModel, batch: Batch) -> Tensor:
    """Return the vectors of the target tokens, which are projected [N D]."""
    source, target = batch.source, batch.decoder_input
    if isinstance(model, Transformer):
        return decode_unpadded(model, source, target)
    if isinstance(model, DecoderOnly):
        return decode_only_unpadded(model, target)
    # A recurrent model steps through padded rows side by side.
    hidden = model.decode(source.padded(), target.padded(), source.is_real)
    return hidden[target.is_real]


class TorchEncoding:
    """Runs texts without padding, and pictures with it.

    It can run any model without interventions or variants. Pictures of one size have no
    padding anyway. The model needs the functions of
    :mod:`headwise.backends.pytorch.install_fused`.
    """

    def why_not(self, model: AnyEncoder, tokens: RaggedTokens) -> str | None:
        """Return why a model needs the reference: see :class:`EncodingBackend`."""
        return why_reference_only(model)

    def encode(self, model: AnyEncoder, tokens: RaggedTokens) -> Tensor:
        """Return a vector for each token: see :class:`EncodingBackend`."""
        if isinstance(model, PictureEncoder):
            return encode_pictures(model, tokens)
        return encode_unpadded(model, tokens)
