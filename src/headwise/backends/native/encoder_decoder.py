"""Decoding of an encoder-decoder by the C kernels: sources in, a state for steps out.

Sources are encoded without padding; for steps see
:mod:`headwise.backends.native.steps`.

Letters used for sizes in this file: N sources, T tokens of all of them.
"""

from __future__ import annotations

from ctypes import byref, pointer

import numpy as np

from headwise.backends.native.arrays import Array, address
from headwise.backends.native.buffer_pool import Buffer
from headwise.backends.native.ctypes_structs import LANES, CrossKV, EncodeRequest
from headwise.backends.native.kv_cache import (
    EncodedSources,
    NativeState,
    Scratch,
    initial_state,
)
from headwise.backends.native.steps import NativeSteps, require_token_ids
from headwise.backends.native.weight_arrays import ModelArrays
from headwise.backends.precision import Precision


class NativeEncoderDecoder(NativeSteps):
    """A decoder on packed copies of a model's weights; see :class:`NativeSteps`."""

    def __init__(
        self,
        arrays: ModelArrays,
        source_vocab_size: int,
        target_vocab_size: int,
        precision: Precision = "float32",
    ) -> None:
        super().__init__(arrays, target_vocab_size, precision)
        self.source_vocab_size = source_vocab_size

    def start(
        self,
        tokens: Array,
        positions: Array,
        lengths: Array,
        vectors: Array | None = None,
    ) -> NativeState:
        """Encode the sources; return a state with one row for each.

        ``tokens`` and their ``positions`` [T] are those of all sources of these
        ``lengths`` [N], END included. With ``vectors`` tokens are rows of them.
        """
        tokens = np.ascontiguousarray(tokens, dtype=np.int64)
        if vectors is None:
            require_token_ids(tokens, self.source_vocab_size)
        starts = np.zeros(len(lengths) + 1, dtype=np.int64)
        lengths.cumsum(out=starts[1:])
        longest = max(1, int(lengths.max(initial=0)))
        self.weights.ensure_source_positions(1 + int(positions.max(initial=0)))
        cross_kv, buffers = self._allocate_cross_kv(lengths, starts)
        scratch = Scratch(self.pool)
        model = byref(self.weights.with_source(vectors))
        request = EncodeRequest(
            sentences=len(lengths),
            tokens=address(tokens),
            positions=address(positions),
            cross=pointer(cross_kv),
            longest=longest,
        )
        floats = self.kernels.encode_scratch_floats(model, longest)
        self.kernels.encode(model, byref(request), scratch.of(floats))
        sources = EncodedSources(cross_kv, longest, buffers, scratch)
        return initial_state(sources, len(lengths))

    def _allocate_cross_kv(
        self, lengths: Array, starts: Array
    ) -> tuple[CrossKV, tuple[object, ...]]:
        """Allocate keys and values of sources of these lengths; also what it holds."""
        config, layers = self.config, self.config.decoder_layers
        padded = -(-lengths // LANES) * LANES * config.num_heads * config.key_width
        ends = padded.cumsum()
        key_offsets = ends - padded
        keys_size = int(ends[-1]) if len(ends) else 0
        values_size = int(starts[-1]) * config.num_heads * config.value_width
        buffers: list[Buffer] = []
        layer_addresses = []
        for size in (keys_size, values_size):
            buffer = self.pool.take(layers * size * self.element_bytes)
            buffers.append(buffer)
            layer_addresses.append(
                buffer.address + np.arange(layers) * (size * self.element_bytes)
            )
        cross_kv = CrossKV(
            starts=address(starts),
            key_offsets=address(key_offsets),
            keys=address(layer_addresses[0]),
            values=address(layer_addresses[1]),
        )
        return cross_kv, (starts, key_offsets, layer_addresses, buffers)
