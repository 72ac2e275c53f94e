"""The whole of Figure 1.

Letters used for sizes: B batch rows, S source positions, L target positions,
D model width, E embedding width, V target vocabulary, N positions in any shape; of a
source whose tokens are patches (``tasks/captioning``), P numbers of each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import SettingsError
from headwise.model.config import TransformerConfig
from headwise.model.decoder import Decoder
from headwise.model.embeddings import OutputProjection, StackInput, TokenEmbedding
from headwise.model.encoder import Encoder
from headwise.model.initialization import initialize
from headwise.model.kv_cache import DecoderState
from headwise.model.masks import make_causal_mask, make_padding_mask
from headwise.model.sequence_model import SequenceModel

INITIAL_CAPACITY = 32
"""Positions of a new KV cache; it doubles as needed."""


class Transformer(SequenceModel):
    """Encoder, decoder, and the embeddings they may share.

    ``target_vocab_size`` unset means one vocabulary for both sides. Weights are drawn
    from ``seed``; the same seed gives the same weights.
    """

    def __init__(
        self,
        config: TransformerConfig,
        source_vocab_size: int,
        target_vocab_size: int | None = None,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(config)
        config.check_stacks("encoder", "decoder")
        target_vocab_size = target_vocab_size or source_vocab_size
        if config.tie_embeddings == "all" and source_vocab_size != target_vocab_size:
            raise SettingsError(
                [
                    f"tie_embeddings = 'all' needs one vocabulary, but the source has "
                    f"{source_vocab_size} entries and the target {target_vocab_size}; "
                    "use 'output', or a joint tokenizer"
                ]
            )
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        width = config.embedding_width
        tables = {"target": TokenEmbedding(target_vocab_size, width)}
        if config.tie_embeddings != "all":
            tables["source"] = TokenEmbedding(source_vocab_size, width)
        self.embeddings = nn.ModuleDict(tables)
        self.enter_encoder = StackInput(config)
        self.encoder = Encoder(config)
        self.enter_decoder = StackInput(config)
        self.decoder = Decoder(config)
        self.output = OutputProjection(config, target_vocab_size)
        initialize(self, seed)

    def forward(
        self,
        source: Integer[Tensor, "B S *P"],
        target: Int[Tensor, "B L"],
        source_is_real: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B L V"]:
        """Return the logits of every next token of ``target``, as training needs them.

        ``target`` is shifted right (Section 3.1): it begins with the start token, and
        the logits at position i are of the token that follows ``target[:, i]``.
        ``source_is_real`` is False for padding.
        """
        return self.logits(self.decode(source, target, source_is_real))

    def decode(
        self,
        source: Integer[Tensor, "B S *P"],
        target: Int[Tensor, "B L"],
        source_is_real: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B L D"]:
        """Return the output of the decoder: ``forward`` up to the "Linear" box."""
        state = self.encode(source, source_is_real)
        mask = make_causal_mask(target.shape[1], target.device)
        x = self.enter_decoder(self.target_embedding(target), 0)
        out: Tensor = self.decoder(x, state, mask)
        return out

    def encode(
        self, source: Integer[Tensor, "B S *P"], source_is_real: Bool[Tensor, "B S"]
    ) -> DecoderState:
        """Encode the source; project the keys and values of cross-attention."""
        mask = make_padding_mask(source_is_real)
        x = self.enter_encoder(self.embed_source(source), 0)
        return self.decoder.initial_state(self.encoder(x, mask), mask)

    def start(
        self, source: Integer[Tensor, "B S *P"], source_is_real: Bool[Tensor, "B S"]
    ) -> DecoderState:
        """Encode the source, to decode the target token by token with :meth:`step`."""
        return self.encode(source, source_is_real).with_kv_cache(INITIAL_CAPACITY)

    def step(
        self, tokens: Int[Tensor, " B"], state: DecoderState
    ) -> tuple[Float[Tensor, "B V"], DecoderState]:
        """Append one token to every row; return the logits of the next one."""
        embedded = self.target_embedding(tokens[:, None])
        x = self.enter_decoder(embedded, state.position)
        x = self.decoder(x, state, None)
        return self.logits(x)[:, -1], replace(state, position=state.position + 1)

    def embed_source(self, source: Integer[Tensor, "B S *P"]) -> Float[Tensor, "B S E"]:
        """Apply the "Input Embedding" box."""
        embedded: Tensor = self.source_embedding(source)
        return embedded

    def logits(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """Apply the "Linear" box: a logit for every entry of the target vocabulary."""
        return F.linear(x, self.output_vectors, self.output.bias)

    @property
    def source_embedding(self) -> TokenEmbedding:
        """The embedding of source tokens, which may be that of target tokens."""
        name = "target" if self.config.tie_embeddings == "all" else "source"
        return cast(TokenEmbedding, self.embeddings[name])

    @property
    def target_embedding(self) -> TokenEmbedding:
        """The embedding of target tokens."""
        return cast(TokenEmbedding, self.embeddings["target"])

    @property
    def output_vectors(self) -> Float[Tensor, "V D"]:
        """The matrix of the "Linear" box, which may be the target embedding."""
        own = self.output.vectors
        return self.target_embedding.vectors if own is None else own
