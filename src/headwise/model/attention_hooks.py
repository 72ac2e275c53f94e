"""Hooks that record the attention weights while a model runs.

Letters used for sizes are those of ``attention.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.attention import (
    AttentionFunction,
    MultiHeadAttention,
    attention_weights,
)
from headwise.model.source_attention import SourceAttention, WeightFunction

AttentionRecord = dict[str, list[Float[Tensor, "B H Q K"]]]
"""Name of an attention layer, such as ``decoder.blocks.0.cross_attention``, to its
attention weights, one tensor for each call."""


@contextmanager
def record_attention_weights(model: nn.Module) -> Iterator[AttentionRecord]:
    """Record the attention weights of all attention layers of ``model``.

    Meanwhile ``scaled_dot_product_attention``, or a variant as it is written, replaces
    fused attention, which never has all weights in memory; so outputs are the same up
    to rounding.
    """
    layers = [
        (name, module, *recorder)
        for name, module in model.named_modules()
        for kind, recorder in RECORDERS.items()
        if isinstance(module, kind)
    ]
    record: AttentionRecord = {name: [] for name, *_ in layers}
    originals = [
        (layer, swapped, getattr(layer, swapped)) for _, layer, swapped, _ in layers
    ]
    for name, layer, swapped, make_recording in layers:
        setattr(layer, swapped, make_recording(record[name], getattr(layer, swapped)))
    try:
        yield record
    finally:
        for layer, swapped, original in originals:
            setattr(layer, swapped, original)


def _recording_attention(recorded: list[Tensor], original: Any) -> AttentionFunction:
    # An intervention or a variant of attention has its own.
    weigh = getattr(original, "weigh", attention_weights)
    mix = getattr(original, "mix", torch.matmul)

    def attend(
        queries: Float[Tensor, "B H Q C"],
        keys: Float[Tensor, "B H K C"],
        values: Float[Tensor, "B H K V"],
        mask: Bool[Tensor, "#B #H #Q K"] | None,
        dropout: float,
    ) -> Float[Tensor, "B H Q V"]:
        weights: Tensor = weigh(queries, keys, mask)
        recorded.append(weights.detach())
        heads: Tensor = mix(F.dropout(weights, dropout), values)
        return heads

    return attend


def _recording_weights(recorded: list[Tensor], original: Any) -> WeightFunction:
    def weigh(*inputs: Any) -> Float[Tensor, "B Q K"]:
        weights: Tensor = original(*inputs)
        recorded.append(weights.detach()[:, None])  # B Q K -> B 1 Q K
        return weights

    return weigh


RECORDERS: dict[type[nn.Module], tuple[str, Callable[[list[Tensor], Any], Any]]] = {
    MultiHeadAttention: ("attend", _recording_attention),
    SourceAttention: ("weigh", _recording_weights),
}
"""Kind of attention layer -> the function in it that is swapped, and what makes one
that records."""
