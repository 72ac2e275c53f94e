"""The whole of Figure 1.

Letters used for sizes: B batch rows, S source positions, L target positions,
D model width, V target vocabulary; of a source whose tokens are patches, P numbers of
each.
"""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from headwise.model.config import TransformerConfig
from headwise.model.decoder import Decoder
from headwise.model.embeddings import OutputProjection, StackInput
from headwise.model.encoder import Encoder
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.initialization import initialize
from headwise.model.kv_cache import DecoderState
from headwise.model.masks import PADDING, make_causal_mask, make_padding_mask

INITIAL_CAPACITY = 32
"""Positions of a new KV cache; it doubles as needed."""


class Transformer(EncoderDecoder):
    """Encoder, decoder, and the embeddings they may share.

    ``target_vocab_size`` unset means one vocabulary for both sides. Weights are drawn
    from ``seed``; the same seed gives the same weights.
    """

    kind = "transformer"

    def __init__(
        self,
        config: TransformerConfig,
        source_vocab_size: int,
        target_vocab_size: int | None = None,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(config, source_vocab_size, target_vocab_size)
        self.enter_encoder = StackInput(config)
        self.encoder = Encoder(config)
        self.enter_decoder = StackInput(config)
        self.decoder = Decoder(config)
        self.output = OutputProjection(config, self.target_vocab_size)
        initialize(self, seed)

    def decode(
        self,
        source: Integer[Tensor, "B S *P"],
        target: Int[Tensor, "B L"],
        source_is_real: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B L D"]:
        """Return the output of the decoder: ``forward`` up to the "Linear" box."""
        state = self.encode(source, source_is_real)
        mask = None
        if self.config.attention_window is None:  # a window is causal by itself
            mask = make_causal_mask(target.shape[1], target.device)
        with self.knowing_padding(self.enter_decoder, self.decoder, target != PADDING):
            x = self.enter_decoder(self.target_embedding(target), 0)
            out: Tensor = self.decoder(x, state, mask)
        return out

    def encode_source(
        self, source: Integer[Tensor, "B S *P"], source_is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """Return the output of the encoder."""
        with self.knowing_padding(self.enter_encoder, self.encoder, source_is_real):
            x = self.enter_encoder(self.embed_source(source), 0, source_is_real)
            out: Tensor = self.encoder(x, make_padding_mask(source_is_real))
        return out

    def encode(
        self, source: Integer[Tensor, "B S *P"], source_is_real: Bool[Tensor, "B S"]
    ) -> DecoderState:
        """Encode the source; project the keys and values of cross-attention."""
        encoded = self.encode_source(source, source_is_real)
        return self.decoder.initial_state(encoded, make_padding_mask(source_is_real))

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
