"""Gradient buffers of the native training step, and the struct that points at them.

Its reference is the model itself (``parameters_by_layer.py``) with the ``.grad`` of its
weights; ``tests/backends/native/test_training.py`` holds the gradients equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, cast
from weakref import WeakKeyDictionary, ref

import numpy as np
import torch
from torch import Tensor, nn

from headwise.backends.native.ctypes_structs import (
    BF16,
    BF16X3,
    FEED_FORWARD,
    Embedding,
    LayerNorm,
    Linear,
    Stack,
    Sublayer,
)
from headwise.backends.native.model_struct import (
    ATTENTION_KINDS,
    eps_over,
    make_model,
    make_stack,
)
from headwise.backends.native.parameters_by_layer import (
    FeedForwardParameters,
    SublayerParameters,
)
from headwise.backends.native.patch_vectors import trained_tensors
from headwise.backends.native.stack_modules import (
    NativeModel,
    StackModules,
    decoder_of,
    encoder_of,
    output_of,
    rotations,
)
from headwise.backends.native.train_batch import run_in_threads
from headwise.model.add_and_norm import AddAndNorm
from headwise.model.decoder_only import DecoderOnly
from headwise.model.embeddings import StackInput, TokenEmbedding
from headwise.model.positions import LearnedPositions

ALIGNMENT = 16
"""Floats at whose multiples a gradient begins."""

MAX_KEPT = 64
"""Buffers of a model that are kept for later batches, one or two for each thread."""


class GradientBuffers:
    """Gradients of ``trained_tensors``, and ``struct``, which points at both.

    ``longest`` is the number of positions of the batch's longest sentence, ``vectors``
    the table of its sources if they are pictures. :func:`take_buffers` makes them.
    """

    def __init__(
        self, model: NativeModel, longest: int, vectors: Tensor | None = None
    ) -> None:
        tensors = trained_tensors(model, vectors)
        self._key = _key(model, tensors)
        self._longest = longest
        self._vectors = vectors
        self._places, size = _places_of(tensors)
        # NumPy gets zeroed pages from the system; torch would write the zeros again.
        self._memory = np.zeros(size, dtype=np.float32)
        self._is_zero = True
        self._lent: Callable[[], object] = lambda: None
        self._index_of = {each: index for index, each in enumerate(tensors)}
        self._copies: list[tuple[Tensor, Callable[[], Tensor] | None]] = []
        self._divisors: dict[int, float] = {}
        self._config = model.config
        output = output_of(model)
        self.struct = make_model(
            model.config,
            model.window if isinstance(model, DecoderOnly) else None,
            terms=_terms(),
            **_dropout_rates(model),
            encoder=self._stack(encoder_of(model), longest),
            decoder=self._stack(decoder_of(model), longest),
            output=Linear() if output is None else self._matrix(*output),
        )

    @property
    def has_table(self) -> bool:
        """Whether ``struct`` points at a table of one batch: no other can use it."""
        return self._vectors is not None

    def is_free(self) -> bool:
        """Tell whether nobody has a gradient of an earlier batch any more."""
        return self._lent() is None

    def fit(self, model: NativeModel, longest: int, tensors: list[Tensor]) -> bool:
        """Tell whether ``struct`` is of ``model`` as it is now, and long enough."""
        return longest <= self._longest and self._key == _key(model, tensors)

    def refresh(self) -> None:
        """Compute again what stands beside the weights, which have changed."""
        for copy, compute in self._copies:
            if compute is not None:
                copy.copy_(compute())

    def set_to_zero(self) -> None:
        """Begin the sums of a batch, in the thread that computes them."""
        if not self._is_zero:
            self._memory.fill(0)
        self._is_zero = False

    def add(self, others: Sequence[GradientBuffers], scale: float = 1.0) -> None:
        """Add the gradients of other parts of the batch; multiply the sums.

        With as many threads as parts.
        """
        threads = 1 + len(others)
        cuts = [len(self._memory) * each // threads for each in range(threads + 1)]

        def add_slice(begin: int, end: int) -> None:
            total = self._memory[begin:end]
            for other in others:
                total += other._memory[begin:end]
            if scale != 1:
                total *= scale

        run_in_threads([partial(add_slice, *bounds) for bounds in pairwise(cuts)])

    def scaled_copies(self, scale: float) -> list[Tensor]:
        """Return new tensors: all gradients times ``scale``."""
        gradients = self._views(torch.from_numpy(self._memory))
        return self._of_weights(list(torch._foreach_mul(gradients, scale)))

    def hand_over(self) -> list[Tensor]:
        """Return all gradients, in the order of ``trained_tensors``.

        This object has no reference to them: then autograd does not copy them.
        """
        memory = self._memory[:]
        self._lent = ref(memory)  # which they keep alive
        return self._of_weights(self._views(torch.from_numpy(memory)))

    def _views(self, flat: Tensor) -> list[Tensor]:
        return [flat.as_strided(*place) for place in self._places]

    def _of_weights(self, gradients: list[Tensor]) -> list[Tensor]:
        """Make gradients of weights of those of their quotients, in place.

        DeepNorm gives kernels weights that are divided by α (:func:`eps_over`).
        """
        for index, divisor in self._divisors.items():
            gradients[index].div_(divisor)
        return gradients

    def _gradient_of(self, tensor: Tensor) -> int:
        """Return the address of the gradient of one of ``trained_tensors``."""
        *_, first = self._places[self._index_of[tensor]]
        return int(self._memory.ctypes.data) + first * self._memory.itemsize

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

    def _kept(self, tensor: Tensor, compute: Callable[[], Tensor] | None = None) -> int:
        """Return the address of a tensor that no model holds, which is kept.

        ``compute`` computes it from weights, for another batch again.
        """
        self._copies.append((tensor.contiguous(), compute))
        return self._copies[-1][0].data_ptr()

    def _embedding(
        self, embedding: TokenEmbedding | None, stack_input: StackInput, longest: int
    ) -> Embedding:
        if embedding is None:
            assert self._vectors is not None
            table, scale = self._vectors, 1.0
        else:
            table, scale = embedding.vectors, embedding.scale
        width = table.shape[1]

        @torch.no_grad()
        def encodings() -> Tensor:
            zeros = torch.zeros(1, longest, width)
            return cast(Tensor, stack_input.add_positions(zeros, 0)[0])

        scheme = stack_input.add_positions.scheme
        learned = scheme.vectors if isinstance(scheme, LearnedPositions) else None
        change = None if learned is None else encodings
        return Embedding(
            table=table.data_ptr(),
            grad_table=self._gradient_of(table),
            positions=self._kept(encodings(), change),
            grad_positions=None if learned is None else self._gradient_of(learned),
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
            grad_weight=self._gradient_of(weight),
            grad_bias=None if bias is None else self._gradient_of(bias),
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
        struct.weight = self._kept_quotient(layer.weight, scale)
        if layer.bias is not None:
            struct.bias = self._kept_quotient(layer.bias, scale)
        return struct

    def _kept_quotient(self, weight: Tensor, divisor: float) -> int:
        self._divisors[self._index_of[weight]] = divisor
        compute = partial(torch.div, weight.detach(), divisor)
        return self._kept(compute(), compute)

    def _norm(self, norm: nn.Module, residual_scale: float = 1.0) -> LayerNorm:
        """Return the struct of a layer norm, or of the identity."""
        if not isinstance(norm, nn.LayerNorm):
            return LayerNorm()
        return LayerNorm(
            weight=norm.weight.data_ptr(),
            bias=norm.bias.data_ptr(),
            grad_weight=self._gradient_of(norm.weight),
            grad_bias=self._gradient_of(norm.bias),
            eps=eps_over(norm.eps, residual_scale),
        )

    def _sublayer(self, layer: SublayerParameters) -> Sublayer:
        around = layer.around
        norm = self._norm(around.norm, around.residual_scale)
        if isinstance(layer, FeedForwardParameters):
            struct = Sublayer(kind=FEED_FORWARD, norm=norm)
            struct.expand = self._linear(layer.expand)
            struct.project = self._last_linear(layer.project, around)
        else:
            struct = Sublayer(kind=ATTENTION_KINDS[layer.kind], norm=norm)
            struct.queries = self._linear(layer.queries)
            struct.keys = self._linear(layer.keys)
            struct.values = self._linear(layer.values)
            struct.output = self._last_linear(layer.output, around)
        return struct


def take_buffers(
    model: NativeModel, longest: int, tensors: list[Tensor], vectors: Tensor | None
) -> GradientBuffers:
    """Return buffers: those that an earlier batch gave back, or new ones.

    ``tensors`` are the ``trained_tensors`` of ``model`` and ``vectors``. To make the
    structs takes a tenth of the time of a small model, and so does fresh memory.
    """
    if vectors is not None:  # another table each time
        return GradientBuffers(model, longest, vectors)
    kept = _kept_buffers.setdefault(model, [])
    for each in [each for each in kept if each.is_free()]:
        try:
            kept.remove(each)
        except ValueError:  # another thread has taken them
            continue
        if each.fit(model, longest, tensors):
            each.refresh()
            return each
    return GradientBuffers(model, _rounded_up(longest, model))


def give_back(model: NativeModel, buffers: GradientBuffers) -> None:
    """Let later batches have ``buffers``, once nobody has its gradients any more."""
    if buffers.has_table:
        return
    kept = _kept_buffers.setdefault(model, [])
    kept.append(buffers)
    del kept[:-MAX_KEPT]


_kept_buffers: WeakKeyDictionary[NativeModel, list[GradientBuffers]] = (
    WeakKeyDictionary()
)


def _key(model: NativeModel, tensors: list[Tensor]) -> tuple[Any, ...]:
    """Return what a struct depends on: settings, and where the weights are."""
    window = model.window if isinstance(model, DecoderOnly) else None
    addresses = tuple(each.data_ptr() for each in tensors)
    return model.config, window, model.training, _terms(), addresses


def _rounded_up(longest: int, model: NativeModel) -> int:
    """Return ``longest``, or more, so that buffers fit the next batches too."""
    rounded = 1 << (longest - 1).bit_length()
    limit = model.config.position_limit
    return rounded if limit is None else max(longest, min(rounded, limit))


def _terms() -> int:
    return BF16 if torch.is_autocast_enabled("cpu") else BF16X3


def _dropout_rates(model: NativeModel) -> dict[str, float]:
    """Return the dropout rates of ``Model``, which are 0 in evaluation."""
    config = model.config
    rates = {
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "feed_forward_dropout": config.feed_forward_dropout,
    }
    return rates if model.training else dict.fromkeys(rates, 0.0)


def _places_of(
    tensors: list[Tensor],
) -> tuple[list[tuple[torch.Size, tuple[int, ...], int]], int]:
    """Return shape, strides and offset of the gradient of each, and the size of all.

    All are in one piece of memory; numbers are of floats.
    """
    places, size = [], 0
    for each in tensors:
        places.append((each.shape, each.stride(), size))
        size += -(-each.numel() // ALIGNMENT) * ALIGNMENT
    return places, size
