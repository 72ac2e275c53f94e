"""An encoder of pictures, as in ViT (Dosovitskiy et al. 2021): a vector for each patch.

Its layers are those of Figure 1 (left), as in :class:`EncoderOnly`; patches stand in
the place of tokens, and the trained [class] token before them.

Letters used for sizes: B batch rows, S patches, P values of a patch, E embedding width,
D model width.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from headwise.model.config import TransformerConfig
from headwise.model.embeddings import StackInput, TokenEmbedding
from headwise.model.encoder import Encoder
from headwise.model.initialization import initialize
from headwise.model.masks import make_padding_mask
from headwise.model.patches import PatchEmbedding
from headwise.model.sequence_model import SequenceModel


class PictureEncoder(SequenceModel):
    """Embedding of patches, positions, and encoder.

    ``config`` has no decoder: its ``decoder_layers`` is 0. Weights are drawn from
    ``seed``. Raises ``SettingsError`` if ``config`` has a decoder, or no encoder.
    """

    def __init__(
        self, config: TransformerConfig, patch_values: int, *, seed: int = 0
    ) -> None:
        super().__init__(config)
        config.check_stacks("encoder")
        self.patch_values = patch_values
        self.class_token = TokenEmbedding(1, config.embedding_width)
        self.embedding = PatchEmbedding(patch_values, config.embedding_width)
        self.enter_encoder = StackInput(config)
        self.encoder = Encoder(config)
        initialize(self, seed)

    def forward(
        self, patches: Integer[Tensor, "B S P"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S+1 D"]:
        """Return a vector for the [class] token and for each patch.

        ``is_real`` is False for padding, which nothing attends to.
        """
        first = is_real.new_ones(len(patches), 1)
        is_real = torch.cat([first, is_real], dim=1)
        with self.knowing_padding(self.enter_encoder, self.encoder, is_real):
            x = self.enter_encoder(self.embed(patches), 0, is_real)
            out: Tensor = self.encoder(x, make_padding_mask(is_real))
        return out

    def embed(self, patches: Integer[Tensor, "B S P"]) -> Float[Tensor, "B S+1 E"]:
        """Apply the "Input Embedding" box to the [class] token and to each patch."""
        first = patches.new_zeros((len(patches), 1), dtype=torch.long)
        return torch.cat([self.class_token(first), self.embedding(patches)], dim=1)
