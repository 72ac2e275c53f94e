"""The model of masked language modelling: an encoder, and a logit for each token.

Letters used for sizes: B windows, N tokens of all windows, M of them masked, V
vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from headwise.backends.select_encoder import encode_batch
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.model.config import TransformerConfig
from headwise.model.encoder_only import EncoderOnly
from headwise.model.heads import MaskedTokenHead
from headwise.model.sequence_model import SequenceModel
from headwise.tasks.masked_language_model.masking import mask_every
from headwise.text.vocabulary import PAD, START


class MaskedLanguageModel(SequenceModel):
    """An :class:`EncoderOnly` and a :class:`MaskedTokenHead`."""

    def __init__(
        self, config: TransformerConfig, vocab_size: int, *, seed: int = 0
    ) -> None:
        super().__init__(config)
        self.vocab_size = vocab_size
        self.encoder_only = EncoderOnly(config, vocab_size, seed=seed)
        self.head = MaskedTokenHead(config, vocab_size, seed=seed)

    def forward(self, texts: RaggedTokens, chosen: Tensor) -> Tensor:
        """Return the logits [M V] of the tokens where ``chosen`` [N] is True.

        START comes before each text, as for classification.
        """
        vectors = encode_batch(self.encoder_only, texts.with_first(START))
        index = torch.arange(len(chosen), device=chosen.device) + texts.row_index + 1
        embedding = self.encoder_only.embedding.vectors
        logits: Tensor = self.head(vectors[index[chosen]], embedding)
        return logits


def masked_token_loss(
    model: MaskedLanguageModel, batch: Batch, *, smoothing: float
) -> Tensor:
    """Return the cross-entropy of the masked tokens, in nats.

    Each window counts as many times as it has tokens, so that the sum, divided by the
    number of all tokens, is the mean over the masked ones. A batch that has no labels
    yet, as in validation, has each seventh token masked.
    """
    if len(batch.source.tokens):
        windows, labels = batch.source, batch.target.tokens
        chosen = labels != PAD
    else:
        windows, chosen = mask_every(batch.target, first=0)
        labels = batch.target.tokens
    logits = model(windows, chosen)
    losses = F.cross_entropy(
        logits.float(), labels[chosen], reduction="none", label_smoothing=smoothing
    )
    rows = windows.row_index[chosen]
    counts = torch.bincount(rows, minlength=len(windows))
    weights = windows.lengths / counts.clamp(min=1)
    return (losses * weights.to(losses.dtype)[rows]).sum()
