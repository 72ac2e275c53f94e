"""A model's weights as the C inference kernels read them: packed copies.

Its reference is the model itself; ``tests/backends/native/test_decoder.py`` holds the
scores equal.
"""

from __future__ import annotations

import numpy as np

from headwise.backends.native.arrays import Array, address
from headwise.backends.native.buffer_pool import aligned_bytes
from headwise.backends.native.ctypes_structs import (
    BF16,
    BF16X3,
    FEED_FORWARD,
    FLOAT32,
    Embedding,
    LayerNorm,
    Matrix,
    Model,
    PackedSublayer,
    Stack,
    Sublayer,
)
from headwise.backends.native.functions import kernels
from headwise.backends.native.model_struct import (
    ATTENTION_KINDS,
    eps_over,
    make_model,
    make_stack,
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
from headwise.backends.precision import Precision
from headwise.fork_safe_lock import ForkSafeLock

FIRST_POSITIONS = 256
"""Position encodings computed at first; their number doubles as needed."""


class NativeWeights:
    """Packed copies of a model's weights.

    Raises ``NativeLibraryError`` where there are no C kernels.
    """

    def __init__(self, arrays: ModelArrays, precision: Precision) -> None:
        self._config = arrays.config
        self._positions: dict[str, PositionTables] = {}
        self._growing = ForkSafeLock()
        self._packer = _Packer(precision)
        self.model = self._packed(arrays)

    def with_source(self, vectors: Array | None) -> Model:
        """Return the struct of the model, with ``vectors`` [R E] as table of sources.

        None means its own table. The caller keeps the vectors.
        """
        if vectors is None:
            return self.model
        assert vectors.flags.c_contiguous
        model = Model.from_buffer_copy(self.model)
        model.encoder.embedding.table = address(vectors)
        return model

    def ensure_source_positions(self, count: int) -> None:
        """Compute the position encodings of ``count`` source positions."""
        if count > self.model.encoder.embedding.num_positions:
            self._compute_positions(
                self.model.encoder, self._positions["encoder"], count
            )

    def ensure_target_positions(self, count: int) -> None:
        """Compute the position encodings of ``count`` target positions."""
        if count > self.model.decoder.embedding.num_positions:
            self._compute_positions(
                self.model.decoder, self._positions["decoder"], count
            )

    def _packed(self, arrays: ModelArrays) -> Model:
        output = arrays.output
        return make_model(
            arrays.config,
            arrays.window,
            terms=self._packer.decoder_terms,
            encoder=self._stack("encoder", arrays.encoder),
            decoder=self._stack("decoder", arrays.decoder),
            packed_output=Matrix() if output is None else self._packer.matrix(output),
        )

    def _stack(self, name: str, arrays: StackArrays | None) -> Stack:
        if arrays is None:
            return Stack()
        self._positions[name] = arrays.positions
        packer, of_source = self._packer, name == "encoder"
        stack = make_stack(
            [packer.sublayer(each, of_source=of_source) for each in arrays.sublayers],
            embedding=self._embedding(arrays),
            norm=packer.norm(arrays.last_norm),
        )
        self._compute_positions(stack, arrays.positions, 1)
        return stack

    def _embedding(self, arrays: StackArrays) -> Embedding:
        struct = Embedding(
            num_positions=0,
            width=self._config.embedding_width,
            scale=arrays.scale,
            norm=self._packer.norm(arrays.norm),
        )
        if arrays.table is not None:  # else the table comes with each batch
            struct.table = self._packer.address(arrays.table)
        return struct

    def _compute_positions(
        self, stack: Stack, tables: PositionTables, count: int
    ) -> None:
        embedding, size = stack.embedding, max(count, tables.max_positions or 0)
        if tables.max_positions is None:
            size = max(FIRST_POSITIONS, 1 << (count - 1).bit_length())
        with self._growing.held():
            if count <= embedding.num_positions:
                return  # another thread has computed them
            # Beyond learned ones, this raises. The old tables stay: another thread may
            # be reading them.
            embedding.positions = self._packer.address(tables.encodings(size))
            angles = tables.rotations(size)
            stack.rotations = None if angles is None else self._packer.address(angles)
            embedding.num_positions = size


class _Packer:
    """Packs matrices, and keeps all memory that the structs point to."""

    def __init__(self, precision: Precision) -> None:
        # Sources have enough rows for BF16X3 to pay, a decoding step may have one; to
        # choose by the number of rows would make a sentence depend on its batch.
        self.encoder_terms = BF16 if precision == "bf16" else BF16X3
        self.decoder_terms = BF16 if precision == "bf16" else FLOAT32
        self._memory: list[Array] = []

    def address(self, array: Array) -> int:
        """Return the address of an array of float32, which is kept."""
        self._memory.append(np.ascontiguousarray(array, dtype=np.float32))
        return address(self._memory[-1])

    def matrix(self, layer: LinearArrays, *, of_source: bool = False) -> Matrix:
        """Pack x -> x Wᵀ + b; ``of_source``: applied to sources, not in steps."""
        terms = self.encoder_terms if of_source else self.decoder_terms
        outputs, inputs = layer.weight.shape
        packed = aligned_bytes(kernels().packed_bytes(inputs, outputs, terms))
        self._memory.append(packed)
        weight = np.ascontiguousarray(layer.weight, dtype=np.float32)
        kernels().pack_transposed(
            address(weight), inputs, outputs, terms, address(packed)
        )
        return Matrix(
            inputs=inputs,
            outputs=outputs,
            terms=terms,
            weight=address(packed),
            bias=None if layer.bias is None else self.address(layer.bias),
        )

    def norm(self, norm: NormArrays | None, residual_scale: float = 1.0) -> LayerNorm:
        """Return the struct of a layer norm, or of the identity."""
        if norm is None:
            return LayerNorm()
        return LayerNorm(
            weight=self.address(norm.weight),
            bias=self.address(norm.bias),
            eps=eps_over(norm.eps, residual_scale),
        )

    def sublayer(self, layer: SublayerArrays, *, of_source: bool) -> Sublayer:
        """Pack a sublayer of the encoder (``of_source``) or of the decoder."""
        kind = FEED_FORWARD
        if isinstance(layer, AttentionArrays):
            kind = ATTENTION_KINDS[layer.kind]
        return Sublayer(
            kind=kind,
            norm=self.norm(layer.norm, layer.residual_scale),
            packed=self._packed_sublayer(layer, of_source),
        )

    def _packed_sublayer(
        self, layer: SublayerArrays, of_source: bool
    ) -> PackedSublayer:
        scale = layer.residual_scale
        if isinstance(layer, FeedForwardArrays):
            return PackedSublayer(
                expand=self._joined([layer.expand], of_source),
                project=self._joined([layer.project], of_source, divisor=scale),
            )
        packed = PackedSublayer(
            output=self._joined([layer.output], of_source, divisor=scale)
        )
        if layer.kind == "cross":
            packed.qkv = self._joined([layer.queries], of_source)
            packed.kv = self._joined([layer.keys, layer.values], True)
        else:
            projections = [layer.queries, layer.keys, layer.values]
            packed.qkv = self._joined(projections, of_source)
        return packed

    def _joined(
        self, layers: list[LinearArrays], of_source: bool, *, divisor: float = 1.0
    ) -> Matrix:
        weight = np.concatenate([layer.weight for layer in layers])
        biases = [layer.bias for layer in layers if layer.bias is not None]
        bias = np.concatenate(biases) if biases else None
        if divisor != 1:
            weight, bias = weight / divisor, None if bias is None else bias / divisor
        return self.matrix(LinearArrays(weight, bias), of_source=of_source)
