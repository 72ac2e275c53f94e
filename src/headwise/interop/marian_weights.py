"""Map weights to the names and the channel order of ``MarianMTModel``.

In Marian's position encodings all sines come before the cosines; ours alternate. So the
channels of d_model are permuted everywhere: embeddings, norms, inputs and outputs of
each sublayer. Sums, norms and products stay the same. Inner dimensions of a sublayer
(heads, d_ff) are not permuted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from headwise.interop.post_norm import as_post_norm
from headwise.model.attention import MultiHeadAttention
from headwise.model.config import TransformerConfig
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward
from headwise.model.transformer import Transformer

Named = Iterator[tuple[str, Tensor]]


def marian_tensors(model: Transformer) -> dict[str, Tensor]:
    """Return every weight, tied ones once; biases that our model lacks are zeros."""
    model, order = as_post_norm(model), channel_order(model.config)
    found = dict(_embeddings(model))
    for number, block in enumerate(model.encoder.blocks):
        name = f"model.encoder.layers.{number}"
        found |= dict(_encoder_block(name, cast(EncoderBlock, block)))
    for number, block in enumerate(model.decoder.blocks):
        name = f"model.decoder.layers.{number}"
        found |= dict(_decoder_block(name, cast(DecoderBlock, block)))
    tensors = {
        name: _permuted(name, tensor.detach().float().cpu(), order)
        for name, tensor in found.items()
    }
    bias = model.output.bias
    biases = torch.zeros(model.target_vocab_size) if bias is None else bias
    tensors["final_logits_bias"] = biases.detach().float().cpu()[None]
    return tensors


def channel_order(config: TransformerConfig) -> Tensor:
    """Return the permutation: index of our channel for each channel of Marian."""
    channels = torch.arange(config.d_model)
    if config.positions == "sinusoidal_halves":
        return channels
    return torch.cat([channels[0::2], channels[1::2]])


INPUT_IS_D_MODEL = ("q_proj", "k_proj", "v_proj", "fc1", "shared", "embed_tokens")
"""Matrices whose second axis is d_model."""

OUTPUT_IS_D_MODEL = ("out_proj", "fc2", "layer_norm")
"""Layers whose output is d_model wide, the first axis of weights and biases."""


def _permuted(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    layer, _, kind = name.rpartition(".")
    if layer.endswith(OUTPUT_IS_D_MODEL):
        return tensor[order]
    if kind == "bias":  # of an inner dimension
        return tensor
    assert layer.endswith((*INPUT_IS_D_MODEL, "lm_head")), name
    return tensor[:, order]


def _embeddings(model: Transformer) -> Named:
    tied = model.config.tie_embeddings
    if tied == "all":
        yield "model.shared.weight", model.target_embedding.vectors
        return
    yield "model.encoder.embed_tokens.weight", model.source_embedding.vectors
    yield "model.decoder.embed_tokens.weight", model.target_embedding.vectors
    if tied == "none":
        yield "lm_head.weight", model.output_vectors


def _encoder_block(name: str, block: EncoderBlock) -> Named:
    yield from _attention(f"{name}.self_attn", block.self_attention)
    yield from _norm(f"{name}.self_attn_layer_norm", block.around_attention.norm)
    yield from _feed_forward(name, block.feed_forward)
    yield from _norm(f"{name}.final_layer_norm", block.around_feed_forward.norm)


def _decoder_block(name: str, block: DecoderBlock) -> Named:
    yield from _attention(f"{name}.self_attn", block.self_attention)
    yield from _norm(f"{name}.self_attn_layer_norm", block.around_self.norm)
    yield from _attention(f"{name}.encoder_attn", block.cross_attention)
    yield from _norm(f"{name}.encoder_attn_layer_norm", block.around_cross.norm)
    yield from _feed_forward(name, block.feed_forward)
    yield from _norm(f"{name}.final_layer_norm", block.around_feed_forward.norm)


def _attention(name: str, layer: MultiHeadAttention) -> Named:
    yield from _linear(f"{name}.q_proj", layer.to_queries)
    yield from _linear(f"{name}.k_proj", layer.to_keys)
    yield from _linear(f"{name}.v_proj", layer.to_values)
    yield from _linear(f"{name}.out_proj", layer.to_output)


def _feed_forward(name: str, layer: FeedForward) -> Named:
    yield from _linear(f"{name}.fc1", layer.widen)
    yield from _linear(f"{name}.fc2", layer.narrow)


def _linear(name: str, layer: nn.Linear) -> Named:
    yield f"{name}.weight", layer.weight
    absent = layer.bias is None
    yield f"{name}.bias", torch.zeros(layer.out_features) if absent else layer.bias


def _norm(name: str, norm: nn.LayerNorm) -> Named:
    yield f"{name}.weight", norm.weight
    yield f"{name}.bias", norm.bias
