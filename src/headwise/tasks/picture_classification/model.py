"""The model of picture classification: an encoder, pooling, a logit for each label.

Letters used for sizes: B pictures, S patches, P values of a patch, D model width,
K labels, N patches of all pictures.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.losses import cross_entropy
from headwise.model.config import TransformerConfig
from headwise.model.heads import ClassificationHead
from headwise.model.picture_encoder import PictureEncoder
from headwise.model.sequence_model import SequenceModel
from headwise.tasks.picture_classification.settings import PictureSettings
from headwise.text.vocabulary import SPECIALS


class PictureClassifier(SequenceModel):
    """A :class:`PictureEncoder` and a :class:`ClassificationHead`.

    ``target_vocab_size`` counts the labels and the special symbols before them.
    Pictures of one size need no padding, so the batch runs as a matrix, by PyTorch: the
    native backend embeds tokens, and has no kernel that embeds patches.
    """

    def __init__(
        self,
        config: TransformerConfig,
        patch_values: int,
        target_vocab_size: int,
        settings: PictureSettings,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(config)
        self.picture_encoder = PictureEncoder(config, patch_values, seed=seed)
        self.head = ClassificationHead(
            config,
            target_vocab_size - len(SPECIALS),
            pooling=settings.pooling,
            tanh_layer=settings.tanh_layer,
            seed=seed,
        )

    def forward(self, pictures: RaggedTokens) -> Tensor:
        """Return the logits [B K] of pictures, whose tokens are patches [N P]."""
        logits: Tensor = self.head(*self.encode(pictures))
        return logits

    def encode(self, pictures: RaggedTokens) -> tuple[Tensor, Tensor]:
        """Return the vectors [B S+1 D], and which of them are real [B S+1].

        The first is that of the [class] token.
        """
        is_real = pictures.is_real
        vectors = self.picture_encoder(pictures.padded(), is_real)
        return vectors, torch.cat([torch.ones_like(is_real[:, :1]), is_real], dim=1)

    def pool(self, pictures: RaggedTokens) -> Tensor:
        """Return one vector for each picture [B D], which the head reads."""
        vectors: Tensor = self.head.pooler(*self.encode(pictures))
        return vectors


def picture_classification_loss(
    model: PictureClassifier, batch: Batch, *, smoothing: float
) -> Tensor:
    """Return the cross-entropy of the labels, summed over the pictures, in nats."""
    labels = batch.target.tokens - len(SPECIALS)
    return cross_entropy(model(batch.source), labels, smoothing)
