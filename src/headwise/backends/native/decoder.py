"""Decoding of an encoder-decoder on a CPU by the C kernels.

Its reference is :class:`TorchDecoder`, which does the same in PyTorch, and in the end
``Transformer.start`` and ``step``; ``tests/backends/native/test_decoder.py`` holds them
equal. What is different: sources are encoded without padding; for steps see
:mod:`headwise.backends.native.steps`.

Letters used for sizes in this file: N sources, S source positions, P values of a patch.
"""

from __future__ import annotations

from ctypes import byref, pointer

import numpy as np
from jaxtyping import Bool, Integer
from torch import Tensor

from headwise.backends.api import Precision
from headwise.backends.native.ctypes_structs import (
    LANES,
    CrossKV,
    EncodeRequest,
)
from headwise.backends.native.kv_cache import (
    Array,
    EncodedSources,
    NativeState,
    Scratch,
    address,
    initial_state,
)
from headwise.backends.native.patch_vectors import embed_patches
from headwise.backends.native.steps import NativeSteps, require_token_ids
from headwise.model.captioner import Captioner
from headwise.model.patches import PatchEmbedding
from headwise.model.transformer import Transformer


class NativeDecoder(NativeSteps):
    """A decoder on packed copies of a model's weights; see :class:`NativeSteps`."""

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        super().__init__(model, model.target_vocab_size, precision)
        self.source_vocab_size = model.source_vocab_size
        self._patch_embedding: PatchEmbedding | None = None
        if isinstance(model, Captioner):
            self._patch_embedding = model.patch_embedding

    def start(
        self, source: Integer[Tensor, "N S *P"], source_is_real: Bool[Tensor, "N S"]
    ) -> NativeState:
        """Encode the sources; return a state with one row for each."""
        real = source_is_real.numpy()
        tokens, vectors = self._look_up(source, real)
        positions = np.ascontiguousarray(real.nonzero()[1])
        lengths = real.sum(1)
        longest = max(1, int(lengths.max(initial=0)))
        self.weights.ensure_source_positions(source.shape[1])
        cross_kv, buffers = self._allocate_cross_kv(lengths)
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

    def _look_up(self, source: Tensor, real: Array) -> tuple[Array, Tensor | None]:
        """Return the tokens without padding; or rows, and the table of patches."""
        if self._patch_embedding is not None:
            return np.flatnonzero(real), embed_patches(self._patch_embedding, source)
        tokens = np.ascontiguousarray(source.numpy()[real], dtype=np.int64)
        require_token_ids(tokens, self.source_vocab_size)
        return tokens, None

    def _allocate_cross_kv(self, lengths: Array) -> tuple[CrossKV, tuple[object, ...]]:
        """Allocate keys and values of sources of these lengths; also what it holds."""
        config, layers = self.config, self.config.decoder_layers
        starts = np.concatenate([[0], lengths.cumsum()])
        padded = -(-lengths // LANES) * LANES * config.num_heads * config.key_width
        ends = padded.cumsum()
        key_offsets = ends - padded
        keys_size = int(ends[-1]) if len(ends) else 0
        values_size = int(starts[-1]) * config.num_heads * config.value_width
        buffers, layer_addresses = [], []
        for size in (keys_size, values_size):
            buffer = self.pool.take(layers * size * self.element_bytes)
            buffers.append(buffer)
            layer_addresses.append(
                buffer.data_ptr() + np.arange(layers) * (size * self.element_bytes)
            )
        cross_kv = CrossKV(
            starts=address(starts),
            key_offsets=address(key_offsets),
            keys=address(layer_addresses[0]),
            values=address(layer_addresses[1]),
        )
        return cross_kv, (starts, key_offsets, layer_addresses, buffers)
