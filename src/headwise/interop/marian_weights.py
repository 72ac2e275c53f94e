"""Our weights under the names that ``MarianMTModel`` of transformers has for them.

Marian adds positions whose sines all stand before the cosines; ours alternate. So the
channels of d_model are put in that order everywhere: in embeddings, norms, what the
boxes take in and what they give out. Sums, norms and products stay what they were. What
happens between two matrices of a box (heads, d_ff) is not touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from headwise.model.attention import MultiHeadAttention
from headwise.model.config import TransformerConfig
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward
from headwise.model.transformer import Transformer

Named = Iterator[tuple[str, Tensor]]


def marian_tensors(model: Transformer) -> dict[str, Tensor]:
    """Return every weight, tied ones once; biases that we do not have are zeros."""
    order = channel_order(model.config)
    found = dict(_embeddings(model))
    for number, block in enumerate(model.encoder.blocks):
        name = f"model.encoder.layers.{number}"
        found |= dict(_encoder_block(name, cast(EncoderBlock, block)))
    for number, block in enumerate(model.decoder.blocks):
        name = f"model.decoder.layers.{number}"
        found |= dict(_decoder_block(name, cast(DecoderBlock, block)))
    tensors = {
        name: _reordered(name, tensor.detach().float().cpu(), order)
        for name, tensor in found.items()
    }
    bias = model.output.bias
    biases = torch.zeros(model.target_vocab_size) if bias is None else bias
    tensors["final_logits_bias"] = biases.detach().float().cpu()[None]
    return tensors


def channel_order(config: TransformerConfig) -> Tensor:
    """Return which of our channels comes first, second, ... there."""
    channels = torch.arange(config.d_model)
    if config.positions == "sinusoidal_halves":
        return channels
    return torch.cat([channels[0::2], channels[1::2]])


TAKES_CHANNELS = ("q_proj", "k_proj", "v_proj", "fc1", "shared", "embed_tokens")
"""Matrices whose second axis is d_model: what they take in, or a table of vectors."""

GIVES_CHANNELS = ("out_proj", "fc2", "layer_norm")
"""Layers whose output is d_model wide: the first axis of their weights and biases."""


def _reordered(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    layer, _, kind = name.rpartition(".")
    if layer.endswith(GIVES_CHANNELS):
        return tensor[order]
    if kind == "bias":  # inside a box
        return tensor
    assert layer.endswith((*TAKES_CHANNELS, "lm_head")), name
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


def _attention(name: str, box: MultiHeadAttention) -> Named:
    yield from _linear(f"{name}.q_proj", box.to_queries)
    yield from _linear(f"{name}.k_proj", box.to_keys)
    yield from _linear(f"{name}.v_proj", box.to_values)
    yield from _linear(f"{name}.out_proj", box.to_output)


def _feed_forward(name: str, box: FeedForward) -> Named:
    yield from _linear(f"{name}.fc1", box.widen)
    yield from _linear(f"{name}.fc2", box.narrow)


def _linear(name: str, layer: nn.Linear) -> Named:
    yield f"{name}.weight", layer.weight
    absent = layer.bias is None
    yield f"{name}.bias", torch.zeros(layer.out_features) if absent else layer.bias


def _norm(name: str, norm: nn.LayerNorm) -> Named:
    yield f"{name}.weight", norm.weight
    yield f"{name}.bias", norm.bias
