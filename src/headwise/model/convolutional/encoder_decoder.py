"""Convolutional encoder-decoders: ``kind = "convolutional"`` and ``"dilated"``.

ConvS2S (Gehring et al. 2017): gated convolutions, and attention in every layer of the
decoder. With dilations it reads as far as ByteNet (Kalchbrenner et al. 2016), with the
layers and the attention of ConvS2S. ``docs/variants.md`` has what differs from both.

Letters used for sizes: B batch rows, S source positions, L target positions, D model
width, V target vocabulary, R positions before the first that a layer reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.model.config import ModelKind, TransformerConfig
from headwise.model.convolutional.layers import (
    DecoderLayer,
    EncoderLayer,
    averaged_sum,
)
from headwise.model.dropout import Dropout
from headwise.model.embeddings import OutputProjection, StackInput
from headwise.model.initialization import initialize
from headwise.model.source_attention import SourceMemory
from headwise.model.stateful_decoding import StatefulEncoderDecoder

INPUT_SCALE = 0.3
"""Factor of embedding + position, whose standard deviation is about 1 at first.

So the scores of attention begin small without the Transformer's division by √d_k. The
paper's embeddings have a standard deviation of 0.1, with which Adam begins slower.
"""


@dataclass(frozen=True)
class ConvolutionalState:
    """What the decoder keeps from one token to the next, and what it attends to."""

    earlier: tuple[Float[Tensor, "B _ D"], ...]
    """The last R inputs of each layer."""

    memory: SourceMemory
    position: int

    def index_select(self, index: Int[Tensor, " rows"]) -> ConvolutionalState:
        """Select batch rows in this order, repeats allowed."""
        return ConvolutionalState(
            tuple(each[index] for each in self.earlier),
            self.memory.index_select(index),
            self.position,
        )


class ConvolutionalEncoder(nn.Module):
    """Gated convolutions, one after the other."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(config, layer) for layer in range(config.encoder_layers)
        )

    def forward(
        self, x: Float[Tensor, "B S D"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """Return a vector for each token."""
        for layer in self.layers:
            x = layer(x, is_real)
        return x


class ConvolutionalDecoder(nn.Module):
    """Gated convolutions of earlier positions, each followed by attention."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(config, layer) for layer in range(config.decoder_layers)
        )
        self.dropout = Dropout(config.dropout)

    def initial_state(
        self,
        encoded: Float[Tensor, "B S D"],
        embedded: Float[Tensor, "B S D"],
        is_real: Bool[Tensor, "B S"],
    ) -> ConvolutionalState:
        """Return the state before the first token.

        Keys are the encoder's outputs, and values these plus its inputs, ``embedded``.
        A mean of m values has a variance 1 / m as large, so they are multiplied by √m
        for the m tokens of a source (Section 3.4).
        """
        root_of_length = is_real.sum(1)[:, None, None].to(encoded.dtype).sqrt()
        values = averaged_sum(encoded, embedded) * root_of_length
        return ConvolutionalState(
            tuple(
                each.initial_inputs(encoded)
                for each in cast(Iterable[DecoderLayer], self.layers)
            ),
            SourceMemory(encoded, values, is_real),
            position=0,
        )

    def forward(
        self, embedded: Float[Tensor, "B L D"], state: ConvolutionalState
    ) -> tuple[Float[Tensor, "B L D"], ConvolutionalState]:
        """Read what continues the target of ``state``; return its outputs."""
        x, kept = embedded, []
        for layer, earlier in zip(self.layers, state.earlier, strict=True):
            x, last = layer(x, embedded, earlier, state.memory)
            kept.append(last)
        position = state.position + embedded.shape[1]
        out: Tensor = self.dropout(x)
        return out, ConvolutionalState(tuple(kept), state.memory, position)


class ConvolutionalModel(StatefulEncoderDecoder):
    """Convolutional encoder and decoder, and the embeddings they may share.

    Embeddings, positions, logits and their tying are the Transformer's. Weights are
    drawn from ``seed``.
    """

    kind: ClassVar[ModelKind] = "convolutional"

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
        self.encoder = ConvolutionalEncoder(config)
        self.enter_decoder = StackInput(config)
        self.decoder = ConvolutionalDecoder(config)
        self.output = OutputProjection(config, self.target_vocab_size)
        initialize(self, seed)
        _enlarge_kernels(self, config)

    def encode_source(
        self, source: Int[Tensor, "B S"], source_is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """Return the output of the encoder."""
        encoded: Tensor = self.encoder(self._enter(source), source_is_real)
        return encoded

    def start(
        self, source: Int[Tensor, "B S"], source_is_real: Bool[Tensor, "B S"]
    ) -> ConvolutionalState:
        """Encode the source, to decode the target token by token with :meth:`step`."""
        embedded = self._enter(source)
        encoded = self.encoder(embedded, source_is_real)
        return self.decoder.initial_state(encoded, embedded, source_is_real)

    def _enter(self, source: Int[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        embedded: Tensor = self.enter_encoder(self.embed_source(source), 0)
        return embedded * INPUT_SCALE

    def continue_target(
        self, tokens: Int[Tensor, "B L"], state: ConvolutionalState
    ) -> tuple[Float[Tensor, "B L D"], ConvolutionalState]:
        """Append tokens to every row; return the decoder's outputs and the state."""
        embedded = self.enter_decoder(self.target_embedding(tokens), state.position)
        out: tuple[Tensor, ConvolutionalState]
        out = self.decoder(embedded * INPUT_SCALE, state)
        return out


class DilatedModel(ConvolutionalModel):
    """The same with kernels whose inputs are further apart from layer to layer."""

    kind = "dilated"


def _enlarge_kernels(model: nn.Module, config: TransformerConfig) -> None:
    """Give kernels the variance 4 (1 - dropout) / (k d), k inputs of d channels.

    So the output of a gated convolution varies as much as its input (Section 3.5).
    They were drawn with 2 / (3 k d), as every matrix.
    """
    for each in model.modules():
        if isinstance(each, nn.Conv1d) and not each.weight.is_meta:
            each.weight.detach().mul_(math.sqrt(6 * (1 - config.dropout)))
