"""The reference of all backends: the models as they are written, with autograd."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor

from headwise.backends.api import AnyEncoder, GenerativeModel, WeightVersions
from headwise.consistency import Consistency, TwoPassLoss, two_pass_loss
from headwise.data.doubled_batch import is_second_pass
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.errors import ModelError
from headwise.losses import cross_entropy
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.picture_encoder import PictureEncoder
from headwise.model.sequence_model import SequenceModel
from headwise.model.variants.names import variants_of


def why_reference_only(model: SequenceModel) -> str | None:
    """Return why fast backends may not run a model, or None if they may.

    Interventions and variants are the reasons, by name.
    """
    return why_intervened(model) or why_variant(model)


def why_intervened(model: SequenceModel) -> str | None:
    """Name the interventions in a model, or return None if there are none."""
    if not model.interventions:
        return None
    return (
        f"{', '.join(model.interventions)}: interventions are hooks, which only the "
        "model itself calls"
    )


def why_variant(model: SequenceModel) -> str | None:
    """Name the settings that fast backends have no code for, or return None."""
    found = variants_of(model.config)
    if not found:
        return None
    return f"{', '.join(found)}: variants, which only the model itself computes"


def require_no_variant(model: SequenceModel) -> None:
    """Raise ``ModelError`` for a model that fast backends have no code for."""
    if reason := why_variant(model):
        raise ModelError(f"{reason}; make_decoder runs it")


class ReferenceTraining:
    """Runs padded batches through the ``decode`` of a model; it can run any model."""

    def why_not(self, model: GenerativeModel, batch: Batch) -> str | None:
        """Return None: see :class:`TrainingBackend`."""
        return None

    def loss(self, model: GenerativeModel, batch: Batch, *, smoothing: float) -> Tensor:
        """Return the summed cross-entropy: see :class:`TrainingBackend`."""
        logits, targets = self._logits(model, batch), batch.target.tokens
        if batch.counted is not None:
            logits, targets = logits[batch.counted], targets[batch.counted]
        return cross_entropy(logits, targets, smoothing)

    def two_pass_loss(
        self,
        model: GenerativeModel,
        batch: Batch,
        *,
        smoothing: float,
        consistency: Consistency,
    ) -> TwoPassLoss:
        """Return the loss of both passes: see :class:`TwoPassBackend`."""
        logits, targets = self._logits(model, batch), batch.target.tokens
        is_second = is_second_pass(batch.target)
        first, second = ~is_second, is_second
        if batch.counted is not None:
            first, second = first & batch.counted, second & batch.counted
        return two_pass_loss(
            logits[first], logits[second], targets[first], smoothing, consistency
        )

    def _logits(self, model: GenerativeModel, batch: Batch) -> Float[Tensor, "N V"]:
        target = batch.decoder_input
        if isinstance(model, EncoderDecoder):
            source = batch.source
            hidden = model.decode(source.padded(), target.padded(), source.is_real)
        else:
            hidden = model.decode(target.padded())
        return model.logits(hidden[target.is_real])


class ReferenceEncoding:
    """Runs padded inputs through an encoder as it is written; it can run any model."""

    def why_not(self, model: AnyEncoder, tokens: RaggedTokens) -> str | None:
        """Return None: see :class:`EncodingBackend`."""
        return None

    def encode(self, model: AnyEncoder, tokens: RaggedTokens) -> Float[Tensor, "N D"]:
        """Return a vector for each token: see :class:`EncodingBackend`."""
        if isinstance(model, PictureEncoder):
            return encode_pictures(model, tokens)
        is_real = tokens.is_real
        return model.encode(tokens.padded(), is_real)[is_real]


def encode_pictures(
    model: PictureEncoder, pictures: RaggedTokens
) -> Float[Tensor, "N D"]:
    """Return the vectors of [class] token and patches, picture after picture."""
    vectors: Tensor = model(pictures.padded(), pictures.is_real)
    return vectors.flatten(0, 1).index_select(0, pictures.with_first(0).padded_index)


class ReferenceDecoder:
    """Decodes with ``start`` and ``step`` of a model; it can run any model.

    The model computes in its own number format, and in evaluation mode if it is in it.
    """

    def __init__(self, model: GenerativeModel) -> None:
        self._versions = WeightVersions(model)
        self._model = model

    def is_current(self, model: SequenceModel) -> bool:
        """Tell whether this is ``model``: see :class:`DecoderBackend`."""
        return model is self._model and self._versions.are_of(model)

    def start(self, source: Tensor, source_is_real: Tensor) -> Any:
        """Encode sources [N S], or begin with prompts; return a state with N rows."""
        return self._model.start(source, source_is_real)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Append one token to every row [B]; return the scores [B V] of the next."""
        return self._model.step(tokens, state)
