"""The weights of an encoder-decoder as arrays, from its file, without torch.

Its reference is the model that ``run_folder.model_weights`` reads from the same file
(``arrays_of_model.py``); ``tests/backends/native/test_arrays_of_file.py`` holds them
equal. A file that does not fit is refused in few words: that reader names each fault.

Letters used for sizes: L positions, P channels of a positional encoding, E embedding
width, V vocabulary, D model width, F feed-forward width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from headwise.backends.native.arrays import Array
from headwise.backends.native.weight_arrays import (
    AttentionArrays,
    AttentionKind,
    FeedForwardArrays,
    LinearArrays,
    ModelArrays,
    NormArrays,
    PositionTables,
    StackArrays,
    SublayerArrays,
)
from headwise.errors import ModelError
from headwise.model.config import Stack, TransformerConfig
from headwise.model.variants.names import variants_of

LONGEST_WAVE = 10000.0
"""That of ``model.positions``, which imports torch."""

NORM_EPS = 1e-5
"""ε of layer normalization, as ``torch.nn.LayerNorm`` has it."""


def why_not_from_file(config: TransformerConfig) -> str | None:
    """Return why the weights of such a model cannot be read here; None if they can."""
    if config.kind != "transformer":
        return f"kind is {config.kind!r}"
    if found := variants_of(config):
        return f"{', '.join(found)}: variants"
    if config.norm == "deep":
        return "norm is 'deep'"
    return None


def arrays_of_file(
    config: TransformerConfig,
    source_size: int,
    target_size: int,
    tensors: Mapping[str, Array],
) -> ModelArrays:
    """Return the weights of a model whose vocabularies have these sizes.

    Raises ``ModelError`` if ``tensors`` are not exactly those of such a model, finite.
    """
    named = _NamedTensors(config, tensors)
    width, d_model = config.embedding_width, config.d_model
    target = named.array("embeddings.target.vectors", target_size, width)
    source, output = target, target
    if config.tie_embeddings != "all":
        source = named.array("embeddings.source.vectors", source_size, width)
    if config.tie_embeddings == "none":
        output = named.array("output.vectors", target_size, d_model)
    bias = named.array("output.bias", target_size) if config.output_bias else None
    found = ModelArrays(
        config=config,
        window=None,
        encoder=named.stack("encoder", source),
        decoder=named.stack("decoder", target),
        output=LinearArrays(output, bias),
    )
    named.check_all_used()
    return found


class _NamedTensors:
    """The tensors of a file by their names; each is checked when it is asked for."""

    def __init__(self, config: TransformerConfig, tensors: Mapping[str, Array]) -> None:
        self._config = config
        self._tensors = tensors
        self._used: set[str] = set()

    def array(self, name: str, *shape: int) -> Array:
        """Return a tensor in float32."""
        found = self._tensors.get(name)
        if found is None or found.shape != shape or found.dtype.kind != "f":
            raise ModelError(f"{name} is missing, or not of shape {list(shape)}")
        if not np.isfinite(found).all():
            raise ModelError(f"{name} contains NaN or infinity")
        self._used.add(name)
        return np.ascontiguousarray(found, dtype=np.float32)

    def check_all_used(self) -> None:
        """Raise ``ModelError`` for a tensor that nobody asked for."""
        if others := self._tensors.keys() - self._used:
            raise ModelError(f"{min(others)} is unexpected")

    def stack(self, name: Stack, table: Array) -> StackArrays:
        """Return the encoder or the decoder, with its embeddings [V E]."""
        config, entry = self._config, f"enter_{name}"
        layers = getattr(config, f"{name}_layers")
        block = self._encoder_block if name == "encoder" else self._decoder_block
        learned = None
        if config.positions == "learned":
            sizes = config.max_positions, config.position_width
            learned = self.array(f"{entry}.add_positions.scheme.vectors", *sizes)
        return StackArrays(
            table=table,
            scale=math.sqrt(config.embedding_width),
            positions=PositionTables(
                partial(_encodings, config, learned),
                partial(_rotations, config),
                None if learned is None else len(learned),
            ),
            norm=self._norm(f"{entry}.norm") if config.embedding_norm else None,
            sublayers=[
                sublayer
                for number in range(layers)
                for sublayer in block(f"{name}.blocks.{number}")
            ],
            last_norm=self._norm(f"{name}.last_norm") if config.norm == "pre" else None,
        )

    def _encoder_block(self, block: str) -> list[SublayerArrays]:
        return [
            self._attention("self", f"{block}.self_attention", "attention"),
            self._feed_forward(f"{block}.feed_forward"),
        ]

    def _decoder_block(self, block: str) -> list[SublayerArrays]:
        return [
            self._attention("causal", f"{block}.self_attention", "self"),
            self._attention("cross", f"{block}.cross_attention", "cross"),
            self._feed_forward(f"{block}.feed_forward"),
        ]

    def _attention(
        self, kind: AttentionKind, layer: str, around: str
    ) -> AttentionArrays:
        config, block = self._config, layer.rpartition(".")[0]
        keys = config.num_heads * config.key_width
        values = config.num_heads * config.value_width
        sizes = {
            "queries": (keys, config.d_model),
            "keys": (keys, config.d_model),
            "values": (values, config.d_model),
            "output": (config.d_model, values),
        }
        return AttentionArrays(
            kind,
            **{
                name: self._linear(f"{layer}.to_{name}", *size, config.attention_bias)
                for name, size in sizes.items()
            },
            norm=self._norm(f"{block}.around_{around}.norm"),
            residual_scale=1.0,
        )

    def _feed_forward(self, layer: str) -> FeedForwardArrays:
        d_model, d_ff = self._config.d_model, self._config.d_ff
        block = layer.rpartition(".")[0]
        return FeedForwardArrays(
            expand=self._linear(f"{layer}.widen", d_ff, d_model, True),
            project=self._linear(f"{layer}.narrow", d_model, d_ff, True),
            norm=self._norm(f"{block}.around_feed_forward.norm"),
            residual_scale=1.0,
        )

    def _linear(
        self, name: str, outputs: int, inputs: int, has_bias: bool
    ) -> LinearArrays:
        bias = self.array(f"{name}.bias", outputs) if has_bias else None
        return LinearArrays(self.array(f"{name}.weight", outputs, inputs), bias)

    def _norm(self, name: str) -> NormArrays:
        size = self._config.d_model
        return NormArrays(
            self.array(f"{name}.weight", size),
            self.array(f"{name}.bias", size),
            NORM_EPS,
        )


def _encodings(config: TransformerConfig, learned: Array | None, count: int) -> Array:
    """Return the encodings [L D] of ``count`` positions, zeros where they have none."""
    width = config.position_width
    if learned is not None:
        if count > len(learned):
            raise ModelError.beyond_positions(count, len(learned))
        table = learned[:count]
    elif config.positions.startswith("sinusoidal"):
        table = sinusoids(count, width)
        if config.positions == "sinusoidal_halves":
            table = np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)
    else:
        table = np.zeros((count, width), dtype=np.float32)
    before = np.zeros((count, config.d_model - width), dtype=np.float32)
    return np.concatenate([before, table], axis=1)


def _rotations(config: TransformerConfig, count: int) -> Array | None:
    if config.positions != "rotary":
        return None
    return sinusoids(1 << max(0, count - 1).bit_length(), config.key_width)


def sinusoids(count: int, width: int) -> Array:
    """Return the table [L P] of ``model.positions.sinusoids``, in float32."""
    even = np.arange(0, width, 2, dtype=np.float64)
    angles = np.arange(count)[:, None] / LONGEST_WAVE ** (even / width)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    return table.reshape(count, -1).astype(np.float32)
