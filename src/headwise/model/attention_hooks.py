"""Hooks that record the attention weights while a model runs.

Letters used for sizes are those of ``attention.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import Bool, Float
from torch import Tensor, nn

from headwise.model.attention import (
    AttentionFunction,
    MultiHeadAttention,
    attention_weights,
    scaled_dot_product_attention,
)

AttentionRecord = dict[str, list[Float[Tensor, "B H Q K"]]]
"""Name of an attention layer, such as ``decoder.blocks.0.cross_attention``, to its
attention weights, one tensor for each call."""


@contextmanager
def record_attention_weights(model: nn.Module) -> Iterator[AttentionRecord]:
    """Record the attention weights of all attention layers of ``model``.

    Meanwhile ``scaled_dot_product_attention`` replaces fused attention, which never has
    all weights in memory; so outputs are the same up to rounding.
    """
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }
    originals = {name: layer.attend for name, layer in layers.items()}
    record: AttentionRecord = {name: [] for name in layers}
    for name, layer in layers.items():
        layer.attend = _recording_attention(record[name])
    try:
        yield record
    finally:
        for name, layer in layers.items():
            layer.attend = originals[name]


def _recording_attention(recorded: list[Tensor]) -> AttentionFunction:
    def attend(
        queries: Float[Tensor, "B H Q C"],
        keys: Float[Tensor, "B H K C"],
        values: Float[Tensor, "B H K V"],
        mask: Bool[Tensor, "#B #H #Q K"] | None,
        dropout: float,
    ) -> Float[Tensor, "B H Q V"]:
        recorded.append(attention_weights(queries, keys, mask).detach())
        return scaled_dot_product_attention(queries, keys, values, mask, dropout)

    return attend
