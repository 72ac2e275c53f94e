"""The model of tagging: an encoder, and a logit for each tag at each token.

Letters used for sizes: B texts, S positions, K tags.
"""

from __future__ import annotations

from torch import Tensor

from headwise.backends.select_encoder import encode_padded
from headwise.consistency import Consistency, TwoPassLoss, two_pass_loss
from headwise.data.doubled_batch import is_second_pass
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.losses import cross_entropy
from headwise.model.config import TransformerConfig
from headwise.model.encoder_only import EncoderOnly
from headwise.model.heads import TaggingHead
from headwise.model.sequence_model import SequenceModel
from headwise.text.vocabulary import PAD, UNKNOWN


class Tagger(SequenceModel):
    """An :class:`EncoderOnly` and a :class:`TaggingHead`.

    ``target_vocab_size`` counts the tags and the special symbols before them. The
    first logit is that of a tag that was not seen in training, so that its loss can be
    computed.
    """

    def __init__(
        self,
        config: TransformerConfig,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(config)
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        self.encoder_only = EncoderOnly(config, source_vocab_size, seed=seed)
        self.head = TaggingHead(config, target_vocab_size - UNKNOWN, seed=seed)

    def forward(self, texts: RaggedTokens) -> Tensor:
        """Return the logits [B S K] of texts, each with END after it."""
        logits: Tensor = self.head(encode_padded(self.encoder_only, texts))
        return logits


def tagging_loss(model: Tagger, batch: Batch, *, smoothing: float) -> Tensor:
    """Return the cross-entropy of the tags, summed over the words, in nats.

    A tag stands at the first token of its word; at other tokens stands ``PAD``.
    """
    logits, labels, _ = _tagged(model, batch)
    return cross_entropy(logits, labels, smoothing)


def two_pass_tagging_loss(
    model: Tagger, batch: Batch, *, smoothing: float, consistency: Consistency
) -> TwoPassLoss:
    """Return the loss of both passes of each text: see ``Task.two_pass_loss``."""
    logits, labels, is_second = _tagged(model, batch)
    first, second = logits[~is_second], logits[is_second]
    return two_pass_loss(first, second, labels[~is_second], smoothing, consistency)


def _tagged(model: Tagger, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits and labels of the words, and which stand in a second pass."""
    logits = model(batch.source)
    tags = batch.target.tokens
    is_tag = tags != PAD
    tagged = logits[batch.target.row_index[is_tag], batch.target.positions[is_tag]]
    return tagged, tags[is_tag] - UNKNOWN, is_second_pass(batch.target)[is_tag]
