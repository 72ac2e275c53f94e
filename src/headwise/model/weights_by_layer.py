"""The weights of a model by sublayer: what backends read instead of calling it.

It only names what is there: every module stays the model's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from torch import nn

from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward
from headwise.model.transformer import Transformer


@dataclass(frozen=True)
class AttentionWeights:
    """An attention box, and the norm of the "Add & Norm" around it."""

    queries: nn.Linear
    keys: nn.Linear
    values: nn.Linear
    output: nn.Linear
    norm: nn.LayerNorm


@dataclass(frozen=True)
class BlockWeights:
    """A block of the encoder, which has no cross-attention, or of the decoder."""

    self_attention: AttentionWeights
    cross_attention: AttentionWeights | None
    expand: nn.Linear
    project: nn.Linear
    norm: nn.LayerNorm
    """Of the "Add & Norm" around feed-forward."""


@dataclass(frozen=True)
class ModelWeights:
    """The blocks of both stacks, from bottom to top."""

    encoder: list[BlockWeights]
    decoder: list[BlockWeights]


def weights_of(model: Transformer) -> ModelWeights:
    """Return the weights of all blocks of ``model``."""
    return ModelWeights(
        [_encoder_block(cast(EncoderBlock, each)) for each in model.encoder.blocks],
        [_decoder_block(cast(DecoderBlock, each)) for each in model.decoder.blocks],
    )


def _encoder_block(block: EncoderBlock) -> BlockWeights:
    own = _attention(block.self_attention, block.around_attention)
    return _block(own, None, block.feed_forward, block.around_feed_forward)


def _decoder_block(block: DecoderBlock) -> BlockWeights:
    own = _attention(block.self_attention, block.around_self)
    cross = _attention(block.cross_attention, block.around_cross)
    return _block(own, cross, block.feed_forward, block.around_feed_forward)


def _attention(box: MultiHeadAttention, around: AddAndNorm) -> AttentionWeights:
    return AttentionWeights(
        box.to_queries, box.to_keys, box.to_values, box.to_output, around.norm
    )


def _block(
    own: AttentionWeights,
    cross: AttentionWeights | None,
    box: FeedForward,
    around: AddAndNorm,
) -> BlockWeights:
    return BlockWeights(own, cross, box.widen, box.narrow, around.norm)
