"""The parameters of a model as a table of sublayers: what backends read to run it.

These are the model's own modules, not copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from torch import nn

from headwise.backends.api import AnyEncoder
from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.decoder import DecoderBlock
from headwise.model.decoder_only import DecoderOnly, DecoderOnlyBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward
from headwise.model.transformer import Transformer

AttentionKind = Literal["self", "causal", "cross"]


@dataclass(frozen=True)
class AttentionParameters:
    """The projections of an attention sublayer, and its "Add & Norm"."""

    kind: AttentionKind
    queries: nn.Linear
    keys: nn.Linear
    values: nn.Linear
    output: nn.Linear
    around: AddAndNorm


@dataclass(frozen=True)
class FeedForwardParameters:
    """The linears of a feed-forward sublayer, and its "Add & Norm"."""

    expand: nn.Linear
    project: nn.Linear
    around: AddAndNorm


SublayerParameters = AttentionParameters | FeedForwardParameters
AnyDecoderBlock = DecoderBlock | DecoderOnlyBlock


@dataclass(frozen=True)
class ModelParameters:
    """The sublayers of both stacks, in the order in which they run.

    A stack that the model does not have is empty.
    """

    encoder: list[SublayerParameters]
    decoder: list[SublayerParameters]


def parameters_by_layer(
    model: Transformer | AnyEncoder | DecoderOnly,
) -> ModelParameters:
    """Return the parameters of all sublayers of ``model``."""
    table = ModelParameters([], [])
    if not isinstance(model, DecoderOnly):
        for block in model.encoder.blocks:
            table.encoder.extend(_encoder_block(cast(EncoderBlock, block)))
    if not isinstance(model, AnyEncoder):
        for block in model.decoder.blocks:
            table.decoder.extend(_decoder_block(cast(AnyDecoderBlock, block)))
    return table


def _encoder_block(block: EncoderBlock) -> list[SublayerParameters]:
    return [
        _attention("self", block.self_attention, block.around_attention),
        _feed_forward(block.feed_forward, block.around_feed_forward),
    ]


def _decoder_block(block: AnyDecoderBlock) -> list[SublayerParameters]:
    causal = _attention("causal", block.self_attention, block.around_self)
    feed_forward = _feed_forward(block.feed_forward, block.around_feed_forward)
    if isinstance(block, DecoderOnlyBlock):
        return [causal, feed_forward]
    cross = _attention("cross", block.cross_attention, block.around_cross)
    return [causal, cross, feed_forward]


def _attention(
    kind: AttentionKind, layer: MultiHeadAttention, around: AddAndNorm
) -> AttentionParameters:
    projections = layer.to_queries, layer.to_keys, layer.to_values, layer.to_output
    return AttentionParameters(kind, *projections, around)


def _feed_forward(layer: FeedForward, around: AddAndNorm) -> FeedForwardParameters:
    return FeedForwardParameters(layer.widen, layer.narrow, around)
