"""An encoder alone, as in BERT: a vector for each token, from the whole text.

Its layers are those of Figure 1 (left). What is made of the vectors, such as a class or
a tag for each token, is in ``heads.py``.

Letters used for sizes: B batch rows, S positions, D model width.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.model.config import TransformerConfig
from headwise.model.embeddings import StackInput, TokenEmbedding
from headwise.model.encoder import Encoder
from headwise.model.initialization import initialize
from headwise.model.masks import make_padding_mask
from headwise.model.sequence_model import SequenceModel


class EncoderOnly(SequenceModel):
    """Embedding and encoder (BERT, without its embedding of segments).

    ``config`` has no decoder: its ``decoder_layers`` is 0. Weights are drawn from
    ``seed``. Raises ``SettingsError`` if ``config`` has a decoder, or no encoder.
    """

    def __init__(
        self, config: TransformerConfig, vocab_size: int, *, seed: int = 0
    ) -> None:
        super().__init__(config)
        config.check_stacks("encoder")
        self.vocab_size = vocab_size
        self.embedding = TokenEmbedding(vocab_size, config.embedding_width)
        self.enter_encoder = StackInput(config)
        self.encoder = Encoder(config)
        initialize(self, seed)

    def forward(
        self, tokens: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """Return :meth:`encode`, for callers that call the module."""
        return self.encode(tokens, is_real)

    def encode(
        self, tokens: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """Return a vector for each token; ``is_real`` is False for padding.

        Nothing attends to padding; what is returned at its positions has no meaning.
        """
        with self.knowing_padding(self.enter_encoder, self.encoder, is_real):
            x = self.enter_encoder(self.embedding(tokens), 0, is_real)
            out: Tensor = self.encoder(x, make_padding_mask(is_real))
        return out
