"""The weights of a model in memory as arrays, which share its memory.

``tests/backends/native/test_arrays_of_file.py`` holds them equal to those of a file.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from headwise.backends.native.arrays import Array
from headwise.backends.native.parameters_by_layer import (
    FeedForwardParameters,
    SublayerParameters,
)
from headwise.backends.native.stack_modules import (
    NativeModel,
    StackModules,
    decoder_of,
    encoder_of,
    output_of,
    rotations,
)
from headwise.backends.native.weight_arrays import (
    AttentionArrays,
    FeedForwardArrays,
    LinearArrays,
    ModelArrays,
    NormArrays,
    PositionTables,
    StackArrays,
    SublayerArrays,
)
from headwise.backends.reference import require_no_variant
from headwise.errors import ModelError
from headwise.model.config import TransformerConfig
from headwise.model.decoder_only import DecoderOnly
from headwise.model.embeddings import StackInput
from headwise.model.positions import LearnedPositions


def arrays_of_model(model: NativeModel) -> ModelArrays:
    """Return the weights of ``model``.

    Raises ``ModelError`` for a model whose weights are not float32 on a CPU, or that is
    a variant.
    """
    require_no_variant(model)
    if any(
        each.dtype != torch.float32 or each.device.type != "cpu"
        for each in model.parameters()
    ):
        raise ModelError(
            "the native backend runs models in float32 on a CPU; the weights of this "
            "one have another type or are on another device"
        )
    output = output_of(model)
    return ModelArrays(
        config=model.config,
        window=model.window if isinstance(model, DecoderOnly) else None,
        encoder=_stack(encoder_of(model), model.config),
        decoder=_stack(decoder_of(model), model.config),
        output=None if output is None else _output(*output),
    )


def _output(weight: Tensor, bias: Tensor | None) -> LinearArrays:
    return LinearArrays(_array(weight), _array_or_none(bias))


def _stack(
    modules: StackModules | None, config: TransformerConfig
) -> StackArrays | None:
    if modules is None:
        return None
    embedding, scheme = modules.embedding, modules.stack_input.add_positions.scheme
    learned = scheme.vectors if isinstance(scheme, LearnedPositions) else None
    return StackArrays(
        table=None if embedding is None else _array(embedding.vectors),
        scale=1.0 if embedding is None else embedding.scale,
        positions=PositionTables(
            partial(_encodings, modules.stack_input, config.embedding_width),
            partial(_rotations, config),
            None if learned is None else len(learned),
        ),
        norm=_norm(modules.stack_input.norm),
        sublayers=[_sublayer(each) for each in modules.sublayers],
        last_norm=_norm(modules.last_norm),
    )


def _sublayer(layer: SublayerParameters) -> SublayerArrays:
    norm, scale = _norm(layer.around.norm), layer.around.residual_scale
    if isinstance(layer, FeedForwardParameters):
        expand, project = _linear(layer.expand), _linear(layer.project)
        return FeedForwardArrays(expand, project, norm, scale)
    return AttentionArrays(
        kind=layer.kind,
        queries=_linear(layer.queries),
        keys=_linear(layer.keys),
        values=_linear(layer.values),
        output=_linear(layer.output),
        norm=norm,
        residual_scale=scale,
    )


def _linear(layer: nn.Linear) -> LinearArrays:
    return LinearArrays(_array(layer.weight), _array_or_none(layer.bias))


def _norm(norm: nn.Module) -> NormArrays | None:
    """Return a layer norm, or None for the identity."""
    if not isinstance(norm, nn.LayerNorm):
        return None
    return NormArrays(_array(norm.weight), _array(norm.bias), norm.eps)


def _encodings(stack_input: StackInput, width: int, count: int) -> Array:
    with torch.no_grad():
        zeros = torch.zeros(1, count, width)
        return _array(stack_input.add_positions(zeros, 0)[0].float())


def _rotations(config: TransformerConfig, count: int) -> Array | None:
    return _array_or_none(rotations(config, count))


def _array_or_none(tensor: Tensor | None) -> Array | None:
    return None if tensor is None else _array(tensor)


def _array(tensor: Tensor) -> Array:
    return tensor.detach().contiguous().numpy()
