"""The model of captioning: that of translation, with patches of pictures as sources.

So Figure 1 stays as it is but for one box, "Input Embedding", which is a linear
projection of pixel values as in ViT (Dosovitskiy et al. 2021).

Letters used for sizes: B batch rows, S patches, P values of a patch, E embedding width.
"""

from __future__ import annotations

from typing import cast

from jaxtyping import Float, Integer
from torch import Tensor

from headwise.model.config import TransformerConfig
from headwise.model.patches import PatchEmbedding
from headwise.model.transformer import Transformer


class Captioner(Transformer):
    """A :class:`Transformer` with sources [B S P]; its ``source_vocab_size`` is P.

    ``config.tie_embeddings`` cannot be "all".
    """

    def __init__(
        self,
        config: TransformerConfig,
        patch_values: int,
        target_vocab_size: int,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(config, patch_values, target_vocab_size, seed=seed)
        self.patch_values = patch_values

    def make_source_embedding(self, vocab_size: int, width: int) -> PatchEmbedding:
        """Return the projection of patches of ``vocab_size`` values."""
        return PatchEmbedding(vocab_size, width)

    def embed_source(self, source: Integer[Tensor, "B S P"]) -> Float[Tensor, "B S E"]:
        """Project the values of each patch."""
        embedded: Tensor = self.patch_embedding(source)
        return embedded

    @property
    def patch_embedding(self) -> PatchEmbedding:
        """The "Input Embedding" box."""
        return cast(PatchEmbedding, self.embeddings["source"])
