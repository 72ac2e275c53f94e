"""The model of regression: an encoder, pooling, and a number for each text.

Letters used for sizes: B texts, S positions, D model width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.backends.select_encoder import encode_padded
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.model.config import TransformerConfig
from headwise.model.encoder_only import EncoderOnly
from headwise.model.heads import RegressionHead
from headwise.model.sequence_model import SequenceModel
from headwise.tasks.encoder_spec import PoolingSettings
from headwise.text.number_tokenizer import HALF
from headwise.text.vocabulary import START


class TextRegressor(SequenceModel):
    """An :class:`EncoderOnly` and a :class:`RegressionHead`."""

    def __init__(
        self,
        config: TransformerConfig,
        source_vocab_size: int,
        settings: PoolingSettings,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(config)
        self.encoder_only = EncoderOnly(config, source_vocab_size, seed=seed)
        self.head = RegressionHead(
            config,
            pooling=settings.pooling,
            tanh_layer=settings.tanh_layer,
            seed=seed,
        )

    def forward(self, texts: RaggedTokens) -> Tensor:
        """Return the standardised numbers [B] of texts, each with END after it."""
        texts = texts.shifted(START)
        encoded = encode_padded(self.encoder_only, texts)
        numbers: Tensor = self.head(encoded, texts.is_real)
        return numbers

    def pool(self, texts: RaggedTokens) -> Tensor:
        """Return one vector for each text [B D], of which the head makes a number."""
        texts = texts.shifted(START)
        encoded = encode_padded(self.encoder_only, texts)
        vectors: Tensor = self.head.pooler(encoded, texts.is_real)
        return vectors


def regression_loss(model: TextRegressor, batch: Batch, *, smoothing: float) -> Tensor:
    """Return the squared errors of standardised numbers, summed over the texts.

    A number has two tokens, by which the loss is divided: so half of the mean squared
    error is what is learned, as by a Gaussian of variance 1. ``smoothing`` is for
    labels, and means nothing here.
    """
    halves = batch.target.tokens.view(-1, 2)
    bits = (halves[:, 0] * HALF + halves[:, 1]).to(torch.int64)
    wrapped = torch.where(bits >= 2**31, bits - 2**32, bits).to(torch.int32)
    wanted = wrapped.view(torch.float32)
    found: Tensor = model(batch.source)
    return (found.float() - wanted).square().sum()
