"""The model of picture classification: an encoder, pooling, a logit for each label.

Letters used for sizes: B pictures, S patches, P values of a patch, D model width,
K labels, N patches of all pictures.
"""

from __future__ import annotations

from torch import Tensor

from headwise.backends.select_encoder import encode_padded
from headwise.data.ragged_batch import RaggedTokens
from headwise.model.config import TransformerConfig
from headwise.model.picture_encoder import PictureEncoder
from headwise.tasks.classification.model import Classifier
from headwise.tasks.picture_classification.settings import PictureSettings


class PictureClassifier(Classifier):
    """A :class:`Classifier` with a :class:`PictureEncoder`."""

    def __init__(
        self,
        config: TransformerConfig,
        patch_values: int,
        target_vocab_size: int,
        settings: PictureSettings,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(config, target_vocab_size, settings, seed=seed)
        self.picture_encoder = PictureEncoder(config, patch_values, seed=seed)

    def encode(self, inputs: RaggedTokens) -> tuple[Tensor, Tensor]:
        """Return the vectors [B S+1 D] of pictures, whose tokens are patches [N P].

        The first is that of the [class] token. Which are real [B S+1] comes second.
        """
        vectors = encode_padded(self.picture_encoder, inputs)
        return vectors, inputs.with_first(0).is_real
