"""A model's weights as the C inference kernels read them: packed copies.

Its reference is the model itself (:mod:`headwise.backends.native.parameters_by_layer`);
``tests/backends/native/test_decoder.py`` holds the scores equal.
"""

from __future__ import annotations

from threading import Lock
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.backends.api import Precision, WeightVersions
from headwise.backends.native.ctypes_structs import (
    ALIGNMENT,
    BF16,
    BF16X3,
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
    NativeModel,
    StackModules,
    decoder_of,
    encoder_of,
    make_model,
    make_stack,
    output_of,
    rotations,
    sublayer_kind,
)
from headwise.backends.native.parameters_by_layer import (
    FeedForwardParameters,
    SublayerParameters,
)
from headwise.backends.reference import require_no_variant
from headwise.errors import ModelError
from headwise.model.embeddings import StackInput, TokenEmbedding
from headwise.model.positions import LearnedPositions
from headwise.model.sequence_model import SequenceModel

FIRST_POSITIONS = 256
"""Position encodings computed at first; their number doubles as needed."""


class NativeWeights:
    """Packed copies of a model's weights; ``is_current`` tells if they are up to date.

    Raises ``NativeLibraryError`` where there are no C kernels, and ``ModelError`` for a
    model whose weights are not float32 on a CPU, or that is a variant.
    """

    def __init__(self, model: NativeModel, precision: Precision) -> None:
        kernels()
        require_no_variant(model)
        if any(
            each.dtype != torch.float32 or each.device.type != "cpu"
            for each in model.parameters()
        ):
            raise ModelError(
                "the native backend runs models in float32 on a CPU; the weights of "
                "this one have another type or are on another device"
            )
        self._versions = WeightVersions(model)
        self._config = model.config
        # Not the model: ``encoder.py`` keeps these copies as long as there is that.
        self._stack_inputs: dict[str, StackInput] = {}
        self._growing = Lock()
        self._packer = _Packer(precision)
        with torch.no_grad():
            self.model = self._packed(model)

    def is_current(self, model: SequenceModel) -> bool:
        """Tell whether the copies are of ``model``'s weights as they are now."""
        return self._versions.are_of(model)

    def with_source(self, vectors: Float[Tensor, "R E"] | None) -> Model:
        """Return the struct of the model, with ``vectors`` as the table of sources.

        None means its own table. The caller keeps the vectors.
        """
        if vectors is None:
            return self.model
        assert vectors.is_contiguous()
        model = Model.from_buffer_copy(self.model)
        model.encoder.embedding.table = vectors.data_ptr()
        return model

    def ensure_source_positions(self, count: int) -> None:
        """Compute the position encodings of ``count`` source positions."""
        if count > self.model.encoder.embedding.num_positions:
            stack_input = self._stack_inputs["encoder"]
            self._compute_positions(self.model.encoder, stack_input, count)

    def ensure_target_positions(self, count: int) -> None:
        """Compute the position encodings of ``count`` target positions."""
        if count > self.model.decoder.embedding.num_positions:
            stack_input = self._stack_inputs["decoder"]
            self._compute_positions(self.model.decoder, stack_input, count)

    def _packed(self, model: NativeModel) -> Model:
        output = output_of(model)
        return make_model(
            model,
            terms=self._packer.decoder_terms,
            encoder=self._stack("encoder", encoder_of(model)),
            decoder=self._stack("decoder", decoder_of(model)),
            packed_output=Matrix() if output is None else self._packer.matrix(*output),
        )

    def _stack(self, name: str, modules: StackModules | None) -> Stack:
        if modules is None:
            return Stack()
        self._stack_inputs[name] = modules.stack_input
        packer, of_source = self._packer, name == "encoder"
        stack = make_stack(
            [packer.sublayer(each, of_source=of_source) for each in modules.sublayers],
            embedding=self._embedding(modules.embedding, modules.stack_input),
            norm=packer.norm(modules.last_norm),
        )
        self._compute_positions(stack, modules.stack_input, 1)
        return stack

    def _embedding(
        self, embedding: TokenEmbedding | None, stack_input: StackInput
    ) -> Embedding:
        struct = Embedding(
            num_positions=0,
            width=self._config.embedding_width,
            scale=1.0,
            norm=self._packer.norm(stack_input.norm),
        )
        if embedding is not None:  # else the table comes with each batch
            struct.table = self._packer.address(embedding.vectors)
            struct.scale = embedding.scale
        return struct

    def _compute_positions(
        self, stack: Stack, stack_input: StackInput, count: int
    ) -> None:
        embedding, scheme = stack.embedding, stack_input.add_positions.scheme
        if isinstance(scheme, LearnedPositions):
            size = max(count, len(scheme.vectors))  # beyond them, it raises
        else:
            size = max(FIRST_POSITIONS, 1 << (count - 1).bit_length())
        zeros = torch.zeros(1, size, self._config.embedding_width)
        with self._growing, torch.no_grad():
            if count <= embedding.num_positions:
                return  # another thread has computed them
            encodings = stack_input.add_positions(zeros, 0)[0].float()
            # The old tables stay: another thread may be reading them.
            embedding.positions = self._packer.address(encodings)
            angles = rotations(self._config, size)
            stack.rotations = None if angles is None else self._packer.address(angles)
            embedding.num_positions = size


class _Packer:
    """Packs matrices, and keeps all memory that the structs point to."""

    def __init__(self, precision: Precision) -> None:
        # Sources have enough rows for BF16X3 to pay, a decoding step may have one; to
        # choose by the number of rows would make a sentence depend on its batch.
        self.encoder_terms = BF16 if precision == "bf16" else BF16X3
        self.decoder_terms = BF16 if precision == "bf16" else FLOAT32
        self._memory: list[Tensor] = []

    def address(self, each: Tensor) -> int:
        """Return the address of a tensor, which is kept."""
        self._memory.append(each.detach().contiguous())
        return self._memory[-1].data_ptr()

    def matrix(
        self, weight: Tensor, bias: Tensor | None, *, of_source: bool = False
    ) -> Matrix:
        """Pack x -> x Wᵀ + b; ``of_source``: applied to sources, not in steps."""
        terms = self.encoder_terms if of_source else self.decoder_terms
        outputs, inputs = weight.shape
        size = kernels().packed_bytes(inputs, outputs, terms)
        memory = torch.empty(size + ALIGNMENT, dtype=torch.uint8)
        self._memory.append(memory)
        address = -(-memory.data_ptr() // ALIGNMENT) * ALIGNMENT
        contiguous = weight.detach().contiguous()
        kernels().pack_transposed(
            contiguous.data_ptr(), inputs, outputs, terms, address
        )
        return Matrix(
            inputs=inputs,
            outputs=outputs,
            terms=terms,
            weight=address,
            bias=None if bias is None else self.address(bias),
        )

    def norm(self, norm: nn.Module) -> LayerNorm:
        """Return the struct of a layer norm, or of the identity."""
        if not isinstance(norm, nn.LayerNorm):
            return LayerNorm()
        return LayerNorm(
            weight=self.address(norm.weight),
            bias=self.address(norm.bias),
            eps=norm.eps,
        )

    def sublayer(self, layer: SublayerParameters, *, of_source: bool) -> Sublayer:
        """Pack a sublayer of the encoder (``of_source``) or of the decoder."""
        return Sublayer(
            kind=sublayer_kind(layer),
            norm=self.norm(layer.norm),
            packed=self._packed_sublayer(layer, of_source),
        )

    def _packed_sublayer(
        self, layer: SublayerParameters, of_source: bool
    ) -> PackedSublayer:
        if isinstance(layer, FeedForwardParameters):
            return PackedSublayer(
                expand=self._joined([layer.expand], of_source),
                project=self._joined([layer.project], of_source),
            )
        packed = PackedSublayer(output=self._joined([layer.output], of_source))
        if layer.kind == "cross":
            packed.qkv = self._joined([layer.queries], of_source)
            packed.kv = self._joined([layer.keys, layer.values], True)
        else:
            projections = [layer.queries, layer.keys, layer.values]
            packed.qkv = self._joined(projections, of_source)
        return packed

    def _joined(self, layers: list[nn.Linear], of_source: bool) -> Matrix:
        weight, bias = torch.cat([layer.weight for layer in layers]), None
        if layers[0].bias is not None:
            bias = torch.cat([cast(Tensor, layer.bias) for layer in layers])
        return self.matrix(weight, bias, of_source=of_source)
