"""The model of captioning: that of translation, with patches of pictures as sources.

So Figure 1 stays as it is but for one box, "Input Embedding", which is a linear
projection of pixel values as in ViT (Dosovitskiy et al. 2021).
"""

from __future__ import annotations

from headwise.model.patches import PatchEmbedding
from headwise.model.transformer import Transformer


class Captioner(Transformer):
    """A :class:`Transformer` with sources [B S P] of S patches of P values.

    ``source_vocab_size`` is P. ``config.tie_embeddings`` cannot be "all".
    """

    source_embedding_class = PatchEmbedding
