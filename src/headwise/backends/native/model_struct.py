"""What the struct of a model has in training and in inference alike.

``weights.py`` (inference) and ``gradients.py`` (training) fill in the rest, from the
modules of each stack (:func:`encoder_of`, :func:`decoder_of`) and of the output.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.backends.api import AnyEncoder
from headwise.backends.native.ctypes_structs import (
    ACTIVATIONS,
    CAUSAL_SELF_ATTENTION,
    CROSS_ATTENTION,
    FEED_FORWARD,
    SELF_ATTENTION,
    Model,
    Stack,
    Sublayer,
)
from headwise.backends.native.parameters_by_layer import (
    AttentionParameters,
    SublayerParameters,
    parameters_by_layer,
)
from headwise.model.captioner import Captioner
from headwise.model.config import TransformerConfig
from headwise.model.decoder_only import DecoderOnly
from headwise.model.embeddings import StackInput, TokenEmbedding
from headwise.model.encoder_only import EncoderOnly
from headwise.model.picture_encoder import PictureEncoder
from headwise.model.positions import sinusoids
from headwise.model.transformer import Transformer

NativeModel = Transformer | AnyEncoder | DecoderOnly
"""What the C kernels run."""

_KINDS = {
    "self": SELF_ATTENTION,
    "causal": CAUSAL_SELF_ATTENTION,
    "cross": CROSS_ATTENTION,
}


@dataclass(frozen=True)
class StackModules:
    """The modules of one stack, in the order in which they run."""

    embedding: TokenEmbedding | None
    """None if the vectors come with each batch: see :mod:`patch_vectors`."""

    stack_input: StackInput
    sublayers: list[SublayerParameters]
    last_norm: nn.Module


def encoder_of(model: NativeModel) -> StackModules | None:
    """Return the encoder of ``model``; None if it has none."""
    if isinstance(model, DecoderOnly):
        return None
    return StackModules(
        _source_embedding(model),
        model.enter_encoder,
        parameters_by_layer(model).encoder,
        model.encoder.last_norm,
    )


def _source_embedding(model: Transformer | AnyEncoder) -> TokenEmbedding | None:
    if isinstance(model, Captioner | PictureEncoder):
        return None
    return model.embedding if isinstance(model, EncoderOnly) else model.source_embedding


def decoder_of(model: NativeModel) -> StackModules | None:
    """Return the decoder of ``model``; None if it has none."""
    if isinstance(model, AnyEncoder):
        return None
    return StackModules(
        model.embedding if isinstance(model, DecoderOnly) else model.target_embedding,
        model.enter_decoder,
        parameters_by_layer(model).decoder,
        model.decoder.last_norm,
    )


def output_of(model: NativeModel) -> tuple[Tensor, Tensor | None] | None:
    """Return weight and bias of the "Linear" box; None if ``model`` has none."""
    if isinstance(model, AnyEncoder):
        return None
    return model.output_vectors, model.output.bias


def sublayer_kind(sublayer: SublayerParameters) -> int:
    """Return the kind of a sublayer as the kernels number it."""
    if isinstance(sublayer, AttentionParameters):
        return _KINDS[sublayer.kind]
    return FEED_FORWARD


def make_stack(sublayers: Sequence[Sublayer], **fields: Any) -> Stack:
    """Return the struct of a stack; it keeps the table of its sublayers alive."""
    table = (Sublayer * len(sublayers))(*sublayers)
    return Stack(
        num_sublayers=len(sublayers),
        sublayers=ctypes.cast(table, ctypes.POINTER(Sublayer)),
        **fields,
    )


def rotations(config: TransformerConfig, count: int) -> Float[Tensor, "L K"] | None:
    """Return the table of rotary positions as ``rotary.h`` reads it, if there are any.

    For ``count`` positions or more, L, and the K channels of a key: sine and cosine of
    the angle of each pair of channels. The table is shared, and not to be changed.
    """
    if config.positions != "rotary":
        return None
    return _rotations(1 << max(0, count - 1).bit_length(), config.key_width)


@lru_cache(maxsize=8)
def _rotations(count: int, width: int) -> Tensor:
    """Return the table, which training needs again for each batch."""
    return sinusoids(torch.arange(count), width).float()


def eps_of(norm: nn.LayerNorm, residual_scale: float) -> float:
    """Return ε for kernels, which know no ``residual_scale`` (α).

    LayerNorm(α x + f) with ε is LayerNorm(x + f / α) with ε / α²: so kernels get the
    last linear layer of a sublayer divided by α, and this.
    """
    return norm.eps / residual_scale**2


def make_model(model: NativeModel, **fields: Any) -> Model:
    """Return the struct of a model with the sizes of ``model`` and these fields."""
    config = model.config
    window = model.window if isinstance(model, DecoderOnly) else None
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
