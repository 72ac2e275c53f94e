"""Map weights to the names of CTranslate2's ``TransformerSpec``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from headwise.interop.ctranslate2_file import Array
from headwise.interop.post_norm import as_post_norm
from headwise.model.attention import MultiHeadAttention
from headwise.model.config import ActivationName
from headwise.model.decoder import DecoderBlock
from headwise.model.embeddings import StackInput
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward
from headwise.model.transformer import Transformer

ACTIVATIONS: dict[ActivationName, int] = {"relu": 0, "swish": 2, "gelu": 3}
"""CTranslate2's ``Activation``; its 1 is the tanh approximation of gelu."""

ENCODINGS = "position_encodings/encodings"

Named = Iterator[tuple[str, Array]]


def named_arrays(model: Transformer, num_positions: int) -> dict[str, Array]:
    """Return every variable; tied weights are one array under several names.

    Sinusoids are stored for ``num_positions``: those that CTranslate2 computes itself
    have another channel order and other wavelengths.
    """
    model = as_post_norm(model)
    found = {
        **dict(_embeddings(model)),
        **dict(_stack("encoder", model, model.enter_encoder, num_positions)),
        **dict(_stack("decoder", model, model.enter_decoder, num_positions)),
        **dict(_last_norm("encoder/layer_norm", model.encoder.last_norm)),
        **dict(_last_norm("decoder/layer_norm", model.decoder.last_norm)),
        "encoder/embeddings_merge": _number(0, "int8"),
        "encoder/multi_query_attention": _number(False, "int8"),
        "decoder/alignment_heads": _number(1, "int16"),
        "decoder/alignment_layer": _number(-1, "int16"),
        "decoder/alibi": _number(False, "int8"),
        "decoder/alibi_use_positive_positions": _number(False, "int8"),
        "decoder/scale_alibi": _number(False, "int8"),
        "decoder/start_from_zero_embedding": _number(False, "int8"),
    }
    if model.config.positions != "learned":
        found[f"encoder/{ENCODINGS}"] = found[f"decoder/{ENCODINGS}"]
    for number, block in enumerate(model.encoder.blocks):
        name = f"encoder/layer_{number}"
        found |= dict(_encoder_block(name, cast(EncoderBlock, block)))
    for number, block in enumerate(model.decoder.blocks):
        name = f"decoder/layer_{number}"
        found |= dict(_decoder_block(name, cast(DecoderBlock, block)))
    return found


def _embeddings(model: Transformer) -> Named:
    tied = model.config.tie_embeddings
    target = _array(model.target_embedding.vectors)
    source = target if tied == "all" else _array(model.source_embedding.vectors)
    yield "encoder/embeddings_0/weight", source
    yield "decoder/embeddings/weight", target
    output = _array(model.output_vectors) if tied == "none" else target
    yield "decoder/projection/weight", output
    if model.output.bias is not None:
        yield "decoder/projection/bias", _array(model.output.bias)


def _stack(
    side: str, model: Transformer, stack_input: StackInput, num_positions: int
) -> Named:
    config = model.config
    yield f"{side}/num_heads", _number(config.num_heads, "int16")
    yield f"{side}/pre_norm", _number(config.norm == "pre", "int8")
    yield f"{side}/activation", _number(ACTIVATIONS[config.activation], "int8")
    yield f"{side}/scale_embeddings", _number(True, "int8")  # by √d_model
    yield f"{side}/{ENCODINGS}", _positions(stack_input, num_positions, config.d_model)
    if isinstance(stack_input.norm, nn.LayerNorm):
        yield from _norm(f"{side}/layernorm_embedding", stack_input.norm)


def _positions(stack_input: StackInput, num_positions: int, width: int) -> Array:
    """Return the position encodings, (num_positions, width)."""
    scheme = stack_input.add_positions.scheme
    if scheme is None:
        return np.zeros((num_positions, width), dtype=np.float32)
    shape = torch.zeros(1, num_positions, width)
    return _array(cast(Tensor, scheme(shape, 0)))


def _encoder_block(name: str, block: EncoderBlock) -> Named:
    yield from _attention(f"{name}/self_attention", block.self_attention, fused=3)
    yield from _norm(f"{name}/self_attention/layer_norm", block.around_attention.norm)
    yield from _feed_forward(f"{name}/ffn", block.feed_forward)
    yield from _norm(f"{name}/ffn/layer_norm", block.around_feed_forward.norm)


def _decoder_block(name: str, block: DecoderBlock) -> Named:
    yield from _attention(f"{name}/self_attention", block.self_attention, fused=3)
    yield from _norm(f"{name}/self_attention/layer_norm", block.around_self.norm)
    yield from _attention(f"{name}/attention", block.cross_attention, fused=2)
    yield from _norm(f"{name}/attention/layer_norm", block.around_cross.norm)
    yield from _feed_forward(f"{name}/ffn", block.feed_forward)
    yield from _norm(f"{name}/ffn/layer_norm", block.around_feed_forward.norm)


def _attention(name: str, module: MultiHeadAttention, *, fused: int) -> Named:
    """Yield the projections; the last ``fused`` of query, key and value are fused."""
    inner = [module.to_queries, module.to_keys, module.to_values]
    apart = [[layer] for layer in inner[: len(inner) - fused]]
    groups = [*apart, inner[len(inner) - fused :], [module.to_output]]
    for number, layers in enumerate(groups):
        yield from _linear(f"{name}/linear_{number}", *layers)


def _feed_forward(name: str, module: FeedForward) -> Named:
    yield from _linear(f"{name}/linear_0", module.widen)
    yield from _linear(f"{name}/linear_1", module.narrow)


def _linear(name: str, *layers: nn.Linear) -> Named:
    """Yield layers with the same input as one, with concatenated outputs."""
    yield f"{name}/weight", _array(torch.cat([layer.weight for layer in layers]))
    if layers[0].bias is not None:
        yield f"{name}/bias", _array(torch.cat([layer.bias for layer in layers]))


def _last_norm(name: str, norm: nn.Module) -> Named:
    if isinstance(norm, nn.LayerNorm):
        yield from _norm(name, norm)


def _norm(name: str, norm: nn.LayerNorm) -> Named:
    yield f"{name}/gamma", _array(norm.weight)
    yield f"{name}/beta", _array(norm.bias)


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().float().cpu().numpy()
    return array


def _number(value: int, kind: str) -> Array:
    return np.array(value, dtype=kind)
