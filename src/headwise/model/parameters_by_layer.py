"""The parameters of a model by layer: what backends read instead of calling it.

These are the model's own modules, not copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from torch import nn

from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.transformer import Transformer


@dataclass(frozen=True)
class AttentionParameters:
    """The projections of an attention sublayer, and the norm of its "Add & Norm"."""

    queries: nn.Linear
    keys: nn.Linear
    values: nn.Linear
    output: nn.Linear
    norm: nn.LayerNorm


@dataclass(frozen=True)
class BlockParameters:
    """A block of the encoder, which has no cross-attention, or of the decoder."""

    self_attention: AttentionParameters
    cross_attention: AttentionParameters | None
    expand: nn.Linear
    project: nn.Linear
    norm: nn.LayerNorm
    """Of the "Add & Norm" of feed-forward."""


@dataclass(frozen=True)
class ModelParameters:
    """The blocks of both stacks, from bottom to top."""

    encoder: list[BlockParameters]
    decoder: list[BlockParameters]


def parameters_by_layer(model: Transformer) -> ModelParameters:
    """Return the parameters of all blocks of ``model``."""
    return ModelParameters(
        [_encoder_block(cast(EncoderBlock, each)) for each in model.encoder.blocks],
        [_decoder_block(cast(DecoderBlock, each)) for each in model.decoder.blocks],
    )


def _encoder_block(block: EncoderBlock) -> BlockParameters:
    return BlockParameters(
        _attention(block.self_attention, block.around_attention),
        None,
        block.feed_forward.widen,
        block.feed_forward.narrow,
        block.around_feed_forward.norm,
    )


def _decoder_block(block: DecoderBlock) -> BlockParameters:
    return BlockParameters(
        _attention(block.self_attention, block.around_self),
        _attention(block.cross_attention, block.around_cross),
        block.feed_forward.widen,
        block.feed_forward.narrow,
        block.around_feed_forward.norm,
    )


def _attention(layer: MultiHeadAttention, around: AddAndNorm) -> AttentionParameters:
    return AttentionParameters(
        layer.to_queries, layer.to_keys, layer.to_values, layer.to_output, around.norm
    )
