"""The model of classification: an encoder, pooling, and a logit for each label.

Letters used for sizes: B texts, S positions, D model width, K labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from headwise.backends.select_encoder import encode_padded
from headwise.consistency import Consistency, TwoPassLoss, two_pass_loss
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.losses import cross_entropy
from headwise.model.config import TransformerConfig
from headwise.model.encoder_only import EncoderOnly
from headwise.model.heads import ClassificationHead
from headwise.model.sequence_model import SequenceModel
from headwise.tasks.encoder_spec import PoolingSettings
from headwise.text.vocabulary import SPECIALS, START


class Classifier(SequenceModel, ABC):
    """Base class of models that encode inputs, pool the vectors, and give each a label.

    ``target_vocab_size`` counts the labels and the special symbols before them.
    """

    def __init__(
        self,
        config: TransformerConfig,
        target_vocab_size: int,
        settings: PoolingSettings,
        *,
        seed: int,
    ) -> None:
        super().__init__(config)
        self.target_vocab_size = target_vocab_size
        self.head = ClassificationHead(
            config,
            target_vocab_size - len(SPECIALS),
            pooling=settings.pooling,
            tanh_layer=settings.tanh_layer,
            seed=seed,
        )

    @abstractmethod
    def encode(self, inputs: RaggedTokens) -> tuple[Tensor, Tensor]:
        """Return the vectors [B S D] of inputs, and which of them are real [B S]."""

    def forward(self, inputs: RaggedTokens) -> Tensor:
        """Return the logits [B K] of inputs."""
        logits: Tensor = self.head(*self.encode(inputs))
        return logits

    def pool(self, inputs: RaggedTokens) -> Tensor:
        """Return one vector for each input [B D], which the head makes logits of."""
        vectors: Tensor = self.head.pooler(*self.encode(inputs))
        return vectors


class TextClassifier(Classifier):
    """A :class:`Classifier` with an :class:`EncoderOnly`."""

    def __init__(
        self,
        config: TransformerConfig,
        source_vocab_size: int,
        target_vocab_size: int,
        settings: PoolingSettings,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(config, target_vocab_size, settings, seed=seed)
        self.source_vocab_size = source_vocab_size
        self.encoder_only = EncoderOnly(config, source_vocab_size, seed=seed)

    def encode(self, inputs: RaggedTokens) -> tuple[Tensor, Tensor]:
        """Return the vectors [B S D] of all tokens, and which of them are real.

        START comes before each text, as BERT's [CLS], and END is left out.
        """
        texts = inputs.shifted(START)
        return encode_padded(self.encoder_only, texts), texts.is_real


def classification_loss(model: Classifier, batch: Batch, *, smoothing: float) -> Tensor:
    """Return the cross-entropy of the labels, summed over the inputs, in nats."""
    labels = batch.target.tokens - len(SPECIALS)
    return cross_entropy(model(batch.source), labels, smoothing)


def two_pass_classification_loss(
    model: Classifier, batch: Batch, *, smoothing: float, consistency: Consistency
) -> TwoPassLoss:
    """Return the loss of both passes of each input: see ``Task.two_pass_loss``."""
    logits, labels = model(batch.source), batch.target.tokens - len(SPECIALS)
    return two_pass_loss(logits[::2], logits[1::2], labels[::2], smoothing, consistency)
