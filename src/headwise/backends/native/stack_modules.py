"""The modules of each stack that the kernels run, and of the output.

``arrays_of_model.py`` (inference) and ``gradients.py`` (training) read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.backends.api import AnyEncoder
from headwise.backends.native.parameters_by_layer import (
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
