"""What the structs of a model have in training and in inference alike.

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
    SELF_ATTENTION,
    Model,
    Stack,
    Sublayer,
)
from headwise.model.config import TransformerConfig

ATTENTION_KINDS = {
    "self": SELF_ATTENTION,
    "causal": CAUSAL_SELF_ATTENTION,
    "cross": CROSS_ATTENTION,
}
"""Kinds of attention sublayers as the kernels number them."""


def make_model(config: TransformerConfig, window: int | None, **fields: Any) -> Model:
    """Return the struct of a model with the sizes of ``config`` and these fields.

    ``window`` is the number of tokens that a decoder alone attends to; None: all.
    """
    return Model(
        d_model=config.d_model,
        heads=config.num_heads,
        d_k=config.key_width,
        d_v=config.value_width,
        d_ff=config.d_ff,
        pre_norm=config.norm == "pre",
        activation=ACTIVATIONS[config.activation],
        window=window or 0,
        **fields,
    )


def make_stack(sublayers: Sequence[Sublayer], **fields: Any) -> Stack:
    """Return the struct of a stack; it keeps the table of its sublayers alive."""
    table = (Sublayer * len(sublayers))(*sublayers)
    return Stack(
        num_sublayers=len(sublayers),
        sublayers=ctypes.cast(table, ctypes.POINTER(Sublayer)),
        **fields,
    )


def eps_over(eps: float, residual_scale: float) -> float:
    """Return ε for kernels, which know no ``residual_scale`` (α).

    LayerNorm(α x + f) with ε is LayerNorm(x + f / α) with ε / α²: so kernels get the
    last linear layer of a sublayer divided by α, and this.
    """
    return eps / residual_scale**2
