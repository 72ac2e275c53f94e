"""What the struct of a model has in training and in inference alike.

``weights.py`` (inference) and ``gradients.py`` (training) fill in the rest.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from headwise.backends.native.ctypes_structs import (
    ACTIVATIONS,
    CAUSAL_SELF_ATTENTION,
    CROSS_ATTENTION,
    FEED_FORWARD,
    SELF_ATTENTION,
    Embedding,
    LayerNorm,
    Model,
    Stack,
    Sublayer,
)
from headwise.model.config import TransformerConfig
from headwise.model.parameters_by_layer import AttentionParameters, SublayerParameters

_KINDS = {
    "self": SELF_ATTENTION,
    "causal": CAUSAL_SELF_ATTENTION,
    "cross": CROSS_ATTENTION,
}


def sublayer_kind(sublayer: SublayerParameters) -> int:
    """Return the kind of a sublayer as the kernels number it."""
    if isinstance(sublayer, AttentionParameters):
        return _KINDS[sublayer.kind]
    return FEED_FORWARD


def make_stack(
    embedding: Embedding, sublayers: Sequence[Sublayer], norm: LayerNorm
) -> Stack:
    """Return the struct of a stack; it keeps the table of its sublayers alive."""
    table = (Sublayer * len(sublayers))(*sublayers)
    return Stack(
        embedding=embedding,
        num_sublayers=len(sublayers),
        sublayers=ctypes.cast(table, ctypes.POINTER(Sublayer)),
        norm=norm,
    )


def make_model(config: TransformerConfig, **fields: Any) -> Model:
    """Return the struct of a model with the sizes of ``config`` and these fields."""
    return Model(
        d_model=config.d_model,
        heads=config.num_heads,
        d_k=config.key_width,
        d_v=config.value_width,
        d_ff=config.d_ff,
        pre_norm=config.norm == "pre",
        activation=ACTIVATIONS[config.activation],
        **fields,
    )
