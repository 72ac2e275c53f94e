"""The parameters of a model as a table of sublayers: what backends read to run it.

These are the model's own modules, not copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from torch import nn

from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward
from headwise.model.transformer import Transformer

AttentionKind = Literal["self", "causal", "cross"]


@dataclass(frozen=True)
class AttentionParameters:
    """The projections of an attention sublayer, and the norm of its "Add & Norm"."""

    kind: AttentionKind
    queries: nn.Linear
    keys: nn.Linear
    values: nn.Linear
    output: nn.Linear
    norm: nn.LayerNorm


@dataclass(frozen=True)
class FeedForwardParameters:
    """The linears of a feed-forward sublayer, and the norm of its "Add & Norm"."""

    expand: nn.Linear
    project: nn.Linear
    norm: nn.LayerNorm


SublayerParameters = AttentionParameters | FeedForwardParameters


@dataclass(frozen=True)
class ModelParameters:
    """The sublayers of both stacks, in the order in which they run."""

    encoder: list[SublayerParameters]
    decoder: list[SublayerParameters]


def parameters_by_layer(model: Transformer) -> ModelParameters:
    """Return the parameters of all sublayers of ``model``."""
    encoder = [cast(EncoderBlock, each) for each in model.encoder.blocks]
    decoder = [cast(DecoderBlock, each) for each in model.decoder.blocks]
    return ModelParameters(
        [sublayer for block in encoder for sublayer in _encoder_block(block)],
        [sublayer for block in decoder for sublayer in _decoder_block(block)],
    )


def _encoder_block(block: EncoderBlock) -> list[SublayerParameters]:
    return [
        _attention("self", block.self_attention, block.around_attention),
        _feed_forward(block.feed_forward, block.around_feed_forward),
    ]


def _decoder_block(block: DecoderBlock) -> list[SublayerParameters]:
    return [
        _attention("causal", block.self_attention, block.around_self),
        _attention("cross", block.cross_attention, block.around_cross),
        _feed_forward(block.feed_forward, block.around_feed_forward),
    ]


def _attention(
    kind: AttentionKind, layer: MultiHeadAttention, around: AddAndNorm
) -> AttentionParameters:
    projections = layer.to_queries, layer.to_keys, layer.to_values, layer.to_output
    return AttentionParameters(kind, *projections, around.norm)


def _feed_forward(layer: FeedForward, around: AddAndNorm) -> FeedForwardParameters:
    return FeedForwardParameters(layer.widen, layer.narrow, around.norm)
