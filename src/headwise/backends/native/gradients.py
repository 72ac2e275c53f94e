"""Gradient buffers of the native training step, and the struct that points at them.

Its reference is the model itself (``parameters_by_layer.py``) with the ``.grad`` of its
weights; ``tests/backends/native/test_training.py`` holds the gradients equal.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from headwise.backends.native.ctypes_structs import (
    BF16,
    BF16X3,
    Embedding,
    LayerNorm,
    Linear,
    Stack,
    Sublayer,
)
from headwise.backends.native.model_struct import (
    NativeModel,
    StackModules,
    decoder_of,
    encoder_of,
    eps_of,
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
from headwise.backends.native.patch_vectors import trained_tensors
from headwise.model.add_and_norm import AddAndNorm
from headwise.model.embeddings import StackInput, TokenEmbedding
from headwise.model.positions import LearnedPositions

ALIGNMENT = 16
"""Floats at whose multiples a gradient begins."""


class GradientBuffers:
    """Zeroed gradients of ``trained_tensors``, and ``struct``, which points at both.

    ``longest`` is the number of positions of the batch's longest sentence, ``vectors``
    the table of its sources if they are pictures.
    """

    def __init__(
        self, model: NativeModel, longest: int, vectors: Tensor | None = None
    ) -> None:
        tensors = trained_tensors(model, vectors)
        self._gradients = _zeros_like(tensors)
        self._gradient_of: dict[Tensor, Tensor] = dict(
            zip(tensors, self._gradients, strict=True)
        )
        self._vectors = vectors
        self._copies: list[Tensor] = []
        self._divided: dict[Tensor, float] = {}
        self._config = model.config
        output = output_of(model)
        self.struct = make_model(
            model,
            terms=BF16 if torch.is_autocast_enabled("cpu") else BF16X3,
            **_dropout_rates(model),
            encoder=self._stack(encoder_of(model), longest),
            decoder=self._stack(decoder_of(model), longest),
            output=Linear() if output is None else self._matrix(*output),
        )

    def finish(self) -> None:
        """Make gradients of weights of those of their quotients, once all are summed.

        DeepNorm gives kernels weights that are divided by α (:func:`eps_of`).
        """
        for gradient, divisor in self._divided.items():
            gradient.div_(divisor)

    def add(self, other: GradientBuffers) -> None:
        """Add the gradients of another part of the batch."""
        torch._foreach_add_(self._gradients, other.gradients)

    def set_to_zero(self) -> None:
        """Forget all gradients, to accumulate others."""
        torch._foreach_zero_(self._gradients)

    @property
    def gradients(self) -> list[Tensor]:
        """All gradients, in the order of ``trained_tensors``."""
        return self._gradients

    def scaled(self, scale: float) -> list[Tensor]:
        """Multiply all gradients by ``scale`` in place, once, and return them."""
        torch._foreach_mul_(self._gradients, scale)
        return self._gradients

    def scaled_copies(self, scale: float) -> list[Tensor]:
        """Return new tensors: all gradients times ``scale``."""
        return list(torch._foreach_mul(self._gradients, scale))

    def _stack(self, modules: StackModules | None, longest: int) -> Stack:
        if modules is None:
            return Stack()
        angles = rotations(self._config, longest)
        return make_stack(
            [self._sublayer(each) for each in modules.sublayers],
            embedding=self._embedding(modules.embedding, modules.stack_input, longest),
            rotations=None if angles is None else self._kept(angles),
            norm=self._norm(modules.last_norm),
        )

    def _kept(self, tensor: Tensor) -> int:
        """Return the address of a tensor that no model holds, which is kept."""
        self._copies.append(tensor.contiguous())
        return self._copies[-1].data_ptr()

    def _embedding(
        self, embedding: TokenEmbedding | None, stack_input: StackInput, longest: int
    ) -> Embedding:
        if embedding is None:
            assert self._vectors is not None
            table, scale = self._vectors, 1.0
        else:
            table, scale = embedding.vectors, embedding.scale
        width = table.shape[1]
        with torch.no_grad():
            encodings = stack_input.add_positions(torch.zeros(1, longest, width), 0)[0]
        scheme = stack_input.add_positions.scheme
        learned = scheme.vectors if isinstance(scheme, LearnedPositions) else None
        return Embedding(
            table=table.data_ptr(),
            grad_table=self._gradient_of[table].data_ptr(),
            positions=self._kept(encodings),
            grad_positions=(
                None if learned is None else self._gradient_of[learned].data_ptr()
            ),
            num_positions=longest,
            width=width,
            position_width=0 if learned is None else learned.shape[1],
            scale=scale,
            norm=self._norm(stack_input.norm),
        )

    def _matrix(self, weight: Tensor, bias: Tensor | None) -> Linear:
        return Linear(
            weight=weight.data_ptr(),
            bias=None if bias is None else bias.data_ptr(),
            grad_weight=self._gradient_of[weight].data_ptr(),
            grad_bias=None if bias is None else self._gradient_of[bias].data_ptr(),
            inputs=weight.shape[1],
            outputs=weight.shape[0],
        )

    def _linear(self, layer: nn.Linear) -> Linear:
        return self._matrix(layer.weight, cast("Tensor | None", layer.bias))

    def _last_linear(self, layer: nn.Linear, around: AddAndNorm) -> Linear:
        """Return the struct of the last layer of a sublayer, divided by α."""
        struct, scale = self._linear(layer), around.residual_scale
        if scale == 1:
            return struct
        struct.weight = self._kept(layer.weight.detach() / scale)
        if layer.bias is not None:
            struct.bias = self._kept(layer.bias.detach() / scale)
        of_layer = [self._gradient_of[each] for each in layer.parameters()]
        self._divided |= dict.fromkeys(of_layer, scale)
        return struct

    def _norm(self, norm: nn.Module, residual_scale: float = 1.0) -> LayerNorm:
        """Return the struct of a layer norm, or of the identity."""
        if not isinstance(norm, nn.LayerNorm):
            return LayerNorm()
        return LayerNorm(
            weight=norm.weight.data_ptr(),
            bias=norm.bias.data_ptr(),
            grad_weight=self._gradient_of[norm.weight].data_ptr(),
            grad_bias=self._gradient_of[norm.bias].data_ptr(),
            eps=eps_of(norm, residual_scale),
        )

    def _sublayer(self, layer: SublayerParameters) -> Sublayer:
        around = layer.around
        norm = self._norm(around.norm, around.residual_scale)
        struct = Sublayer(kind=sublayer_kind(layer), norm=norm)
        if isinstance(layer, FeedForwardParameters):
            struct.expand = self._linear(layer.expand)
            struct.project = self._last_linear(layer.project, around)
        else:
            struct.queries = self._linear(layer.queries)
            struct.keys = self._linear(layer.keys)
            struct.values = self._linear(layer.values)
            struct.output = self._last_linear(layer.output, around)
        return struct


def _dropout_rates(model: NativeModel) -> dict[str, float]:
    """Return the dropout rates of ``Model``, which are 0 in evaluation."""
    config = model.config
    rates = {
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "feed_forward_dropout": config.feed_forward_dropout,
    }
    return rates if model.training else dict.fromkeys(rates, 0.0)


def _zeros_like(tensors: list[Tensor]) -> list[Tensor]:
    """Return a zero tensor for each of them, all in one piece of memory."""
    sizes = [-(-each.numel() // ALIGNMENT) * ALIGNMENT for each in tensors]
    # NumPy gets zeroed pages from the system; torch would write the zeros once more.
    zeros = torch.from_numpy(np.zeros(sum(sizes), dtype=np.float32))
    pieces = torch.split(zeros, sizes)
    return [
        piece[: each.numel()].view(each.shape)
        for piece, each in zip(pieces, tensors, strict=True)
    ]
