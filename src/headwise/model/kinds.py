"""The encoder-decoders that ``TransformerConfig.kind`` chooses from."""

from __future__ import annotations

from collections.abc import Callable

from headwise.model.config import ModelKind, TransformerConfig
from headwise.model.convolutional.encoder_decoder import (
    ConvolutionalModel,
    DilatedModel,
)
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.recurrent.encoder_decoder import ElmanModel, GruModel, LstmModel
from headwise.model.transformer import Transformer

ENCODER_DECODERS: dict[ModelKind, Callable[..., EncoderDecoder]] = {
    "transformer": Transformer,
    "elman": ElmanModel,
    "gru": GruModel,
    "lstm": LstmModel,
    "convolutional": ConvolutionalModel,
    "dilated": DilatedModel,
}


def new_encoder_decoder(
    config: TransformerConfig,
    source_vocab_size: int,
    target_vocab_size: int | None = None,
    *,
    seed: int = 0,
) -> EncoderDecoder:
    """Make a model of ``config.kind``, with weights drawn from ``seed``."""
    make = ENCODER_DECODERS[config.kind]
    return make(config, source_vocab_size, target_vocab_size, seed=seed)
