"""A batch through a :class:`Transformer` and back, in compiled kernels on a CPU.

Loss and gradients are those of ``packed_forward.decode_real`` with
``projected_cross_entropy``, whose readable twins say the same in PyTorch. What is
different: the whole way is one call into compiled code (``csrc/train.c``), which
finds the gradients with the loss, so that ``backward`` has only to return them;
sentences stand one behind the other without padding; what chance silences is drawn
again on the way back instead of being kept. It runs on one core: several share a batch
in processes of their own.

Letters used for sizes: N sentences, S and L positions of the longest, padding counted.
"""

from __future__ import annotations

from ctypes import byref
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from headwise.backends.native.compiler import why_not
from headwise.backends.native.customization import what_is_special
from headwise.backends.native.gradients import Gradients
from headwise.backends.native.selection import why_not_taken
from headwise.backends.native.train_ctypes_structs import Lesson, learning_kernels
from headwise.backends.pytorch.install import what_is_swapped
from headwise.errors import DataError
from headwise.model.activation_checkpointing import is_checkpointed
from headwise.model.transformer import Transformer

ALIGNED = 64
"""Bytes at whose multiples what kernels are given begins."""

LONGEST = 512
"""Positions of a sentence up to which the weights of attention are kept whole; their
number grows with the square of the length."""


def learns_compiled(model: Transformer, longest: int) -> bool:
    """Tell whether a model learns from sentences of this length by compiled kernels."""
    return (
        model.backend in ("auto", "native")
        and torch.is_grad_enabled()
        and longest <= LONGEST
        and why_not_compiled(model) is None
    )


def why_not_compiled(model: Transformer) -> str | None:
    """Return why compiled kernels cannot let this model learn, or None."""
    config = model.config
    needed = {
        "norm = 'post'": config.norm == "post",
        "activation = 'relu'": config.activation == "relu",
        "attention_dropout = 0": not config.attention_dropout,
        "feed_forward_dropout = 0": not config.feed_forward_dropout,
        "positions that are not learned": config.positions != "learned",
        "position_join = 'add'": config.position_join == "add",
        "embedding_norm = false": not config.embedding_norm,
        "activation_checkpointing = false": not is_checkpointed(model),
    }
    missing = [name for name, there in needed.items() if not there]
    if missing:
        return f"kernels in C learn only models with {' and '.join(missing)}"
    if any(
        type(each.data) is not Tensor  # a share of a weight, and no whole one
        or each.dtype != torch.float32
        or each.device.type != "cpu"
        or not each.is_contiguous()
        for each in model.parameters()
    ):
        return "kernels in C learn only whole float32 weights on a CPU"
    special = what_is_special(model) or what_is_swapped(model)
    if special or model.backend == "native":
        return special or why_not()
    return why_not_taken("training")


def compiled_loss(
    model: Transformer,
    source: Int[Tensor, "N S"],
    target_in: Int[Tensor, "N L"],
    target_out: Int[Tensor, "N L"],
    source_is_real: Bool[Tensor, "N S"],
    target_is_real: Bool[Tensor, "N L"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """Return the summed loss, of which autograd gets the gradients of all weights.

    Real tokens come before padding in each row.
    """
    batch = _Batch(source, target_in, target_out, source_is_real, target_is_real)
    sizes = model.source_vocab_size, model.target_vocab_size, model.target_vocab_size
    for tokens, size in zip(batch.tokens, sizes, strict=True):
        # What is compiled does not look.
        least, most = int(tokens.min()), int(tokens.max())
        if not 0 <= least <= most < size:
            raise DataError(
                f"a batch holds tokens from {least} to {most}, but the model's "
                f"vocabulary goes from 0 to {size - 1}; was the corpus prepared for "
                "another one?"
            )
    loss = _Learned.apply(  # type: ignore[no-untyped-call]
        model, batch, smoothing, *model.parameters()
    )
    return cast(Tensor, loss)


class _Batch:
    """Sentences one behind the other; keeps what ``lesson`` points to."""

    def __init__(
        self,
        source: Tensor,
        target_in: Tensor,
        target_out: Tensor,
        source_is_real: Tensor,
        target_is_real: Tensor,
    ) -> None:
        self.tokens = (
            source[source_is_real],
            target_in[target_is_real],
            target_out[target_is_real],
        )
        lengths = [each.sum(1) for each in (source_is_real, target_is_real)]
        self.starts = [
            torch.cat([each.new_zeros(1), each.cumsum(0)]) for each in lengths
        ]
        self.longest = max(int(each.max()) for each in lengths)
        self.lesson = Lesson(
            sentences=len(source),
            source=self.tokens[0].data_ptr(),
            source_starts=self.starts[0].data_ptr(),
            target_in=self.tokens[1].data_ptr(),
            target_out=self.tokens[2].data_ptr(),
            target_starts=self.starts[1].data_ptr(),
            seed=int(torch.randint(2**62, (1,))),
        )


_rooms: WeakKeyDictionary[Transformer, list[NDArray[np.uint8]]] = WeakKeyDictionary()
"""Memory that nobody uses now: fresh memory would take a tenth of the time."""


def _taken(model: Transformer, size: int) -> NDArray[np.uint8]:
    while _rooms.get(model):
        room = _rooms[model].pop()
        if len(room) >= size:
            return room
    return np.empty(size, dtype=np.uint8)


class _Learned(torch.autograd.Function):
    """The loss as a function of all weights, as autograd sees it.

    So ``torch.autograd.grad`` and hooks of the graph get what they ask for. What a
    batch gives is summed up by itself, as torch does it, so that batches give the same
    sum in one process and in several.
    """

    @staticmethod
    def forward(
        ctx: Any,
        model: Transformer,
        batch: _Batch,
        smoothing: float,
        *weights: Tensor,
    ) -> Tensor:
        kernels = learning_kernels()
        ctx.gradients = Gradients(model, batch.longest, smoothing)
        pupil, lesson = byref(ctx.gradients.pupil), byref(batch.lesson)
        room = _taken(model, kernels.lesson_bytes(pupil, lesson) + ALIGNED)
        begin = -(-room.ctypes.data // ALIGNED) * ALIGNED
        loss = kernels.learn(pupil, lesson, begin)
        _rooms.setdefault(model, []).append(room)
        return weights[0].new_tensor(loss)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *scales: Tensor) -> Any:
        if ctx.gradients is None:
            raise RuntimeError("gradients of this loss were handed over before")
        gradients, ctx.gradients = ctx.gradients, None
        # Nobody else may hold them: then torch keeps them where they are.
        return None, None, None, *gradients.times(scales[0].item())
