"""One word through one block, step by step, with all numbers in between.

Letters used for sizes in this file:

    D  model width               K  positions that are attended to
    C  channels of a query       F  width inside feed-forward (d_ff)
    V  channels of a value
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headwise.errors import UsageError
from headwise.evaluation_mode import evaluation_mode
from headwise.inspection.hooks import (
    AttentionCall,
    SublayerCall,
    capture_inputs,
    observe_attention,
    observe_sublayers,
)
from headwise.inspection.places import (
    Head,
    SublayerName,
    add_and_norm_of,
    blocks,
    config_of,
    find_head,
    sublayers,
)
from headwise.inspection.token_pair import TokenPair, run_model
from headwise.model.attention import MultiHeadAttention
from headwise.model.feed_forward import FeedForward
from headwise.model.variants.attention import VariantAttention
from headwise.model.variants.names import variants_of


@dataclass(frozen=True, eq=False)
class SublayerSteps:
    """One sublayer, with its residual connection and layer norm, at one position."""

    sublayer: SublayerName

    x: Tensor
    """[D], what goes around the sublayer: times α if norm is "deep"."""

    input: Tensor
    """[D], what goes into it: LayerNorm(x) if pre-norm."""

    hidden: Tensor | None
    """[F], x W₁ + b₁ of feed-forward."""

    activated: Tensor | None
    """[F], after the activation."""

    output: Tensor
    """[D]."""

    sum: Tensor
    """[D], x + output."""

    result: Tensor
    """[D], what goes on: LayerNorm(sum), or the sum itself if pre-norm."""


@dataclass(frozen=True, eq=False)
class WordSteps:
    """Equation 1 of one head at one position, then the rest of its block."""

    head: Head
    position: int
    piece: str
    """The piece at the position; of a decoder, of its input."""

    attended: tuple[str, ...]
    """The K pieces that may be attended to."""

    query_before_rotation: Tensor | None
    """[C], of rotary positions; None of others."""

    query: Tensor
    """[C]."""

    keys: Tensor
    """[K C], rotated if positions are rotary."""

    values: Tensor
    """[K V]."""

    scores: Tensor
    """[K], query · key."""

    scaled_scores: Tensor
    """[K], divided by √d_k."""

    mask: tuple[bool, ...]
    """[K], True where the position may attend."""

    masked_scores: Tensor
    """[K], -inf where it may not."""

    weights: Tensor
    """[K], the softmax."""

    weighted_values: Tensor
    """[K V], each value times its weight."""

    head_output: Tensor
    """[V], their sum."""

    concatenation: Tensor
    """[HV], the outputs of all heads, which W^O is applied to."""

    sublayers: tuple[SublayerSteps, ...]
    """Of the block, from the attention on: its output is the concatenation by W^O."""


@torch.no_grad()
def word_steps(
    model: nn.Module, pair: TokenPair, head: Head, position: int
) -> WordSteps:
    """Return all steps of ``head`` at a position, counted from 0.

    The numbers are the model's own: what it computes as it runs ``pair``, in its own
    precision. Raises ``UsageError`` for a head or a position that there is not, and for
    variants whose steps are others.
    """
    layer = find_head(model, head)
    _require_equation_1(model, layer)
    of_encoder = head.kind == "encoder"
    pieces = pair.source_pieces if of_encoder else pair.decoder_pieces
    if not 0 <= position < len(pieces):
        raise UsageError(
            f"there is no position {position}: {head.attention} has "
            f"{len(pieces)} positions, from 0 to {len(pieces) - 1}"
        )
    own = head.attention.sublayer
    block = blocks(model, own.stack)[head.layer]
    calls: list[AttentionCall] = []
    with (
        evaluation_mode(model),
        observe_attention({layer: calls.append}),
        capture_inputs({"to_output": layer.to_output}) as inputs,
        observe_sublayers(block) as records,
    ):
        run_model(model, pair)
    (call,) = calls
    query = call.queries[0, head.head, position]
    keys, values = call.keys[0, head.head], call.values[0, head.head]
    mask = _mask_of(call, head.head, position, len(keys))
    scores = keys @ query
    scaled = scores / math.sqrt(len(query))
    masked = scaled.masked_fill(~mask, -math.inf)
    weights = masked.softmax(dim=0) if bool(mask.any()) else torch.zeros_like(masked)
    weighted = weights[:, None] * values
    before_rotation = None
    if layer.rotate is not None:
        projected = layer.to_queries(records[own.sublayer].input[0, position])
        before_rotation = projected.view(layer.num_heads, -1)[head.head]
    ran = [
        each
        for each in sublayers(model)
        if (each.stack, each.layer) == (own.stack, own.layer)
    ]
    return WordSteps(
        head,
        position,
        pieces[position],
        pair.decoder_pieces if head.kind == "decoder" else pair.source_pieces,
        before_rotation,
        query,
        keys,
        values,
        scores,
        scaled,
        tuple(mask.tolist()),
        masked,
        weights,
        weighted,
        weighted.sum(dim=0),
        inputs["to_output"][0, position],
        tuple(
            _sublayer_steps(block, name, records[name.sublayer], position)
            for name in ran[ran.index(own) :]
        ),
    )


def _require_equation_1(model: nn.Module, layer: MultiHeadAttention) -> None:
    """Raise ``UsageError`` if attention or residual connections are variants."""
    config = config_of(model)
    has_other_residual = config.residual != "all"
    if has_other_residual or isinstance(layer.attend, VariantAttention):
        raise UsageError(
            f"the steps shown are those of Equation 1 and of LayerNorm(x + Sublayer(x))"
            f"; this model has {', '.join(variants_of(config))}, whose attention maps "
            "can be shown (--show attention)"
        )


def _mask_of(call: AttentionCall, head: int, position: int, length: int) -> Tensor:
    """Return which of ``length`` positions [K] a position may attend to."""
    if not isinstance(call.mask, Tensor):
        return torch.ones(length, dtype=torch.bool, device=call.keys.device)
    return call.mask.expand(1, *call.weights.shape[1:])[0, head, position]


def _sublayer_steps(
    block: nn.Module, name: SublayerName, record: SublayerCall, position: int
) -> SublayerSteps:
    scale = add_and_norm_of(block, name.sublayer).residual_scale
    x, given = scale * record.x[0, position], record.input[0, position]
    output, result = record.output[0, position], record.result[0, position]
    hidden = activated = None
    module = getattr(block, name.sublayer)
    if isinstance(module, FeedForward):
        hidden = module.widen(given)
        activated = module.activation(hidden)
    return SublayerSteps(name, x, given, hidden, activated, output, x + output, result)
