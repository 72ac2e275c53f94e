"""A batch as the C training kernels read it, its parts for threads, and their memory.

Its reference is the batch itself (:mod:`headwise.data.ragged_batch`);
``tests/backends/native/test_train_batch.py`` compares the parts with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.backends.native import ctypes_structs
from headwise.backends.native.ctypes_structs import (
    ALIGNMENT,
    BOTH_WAYS,
    ONE_WAY,
    TrainBatch,
)
from headwise.consistency import Consistency
from headwise.data.ragged_batch import RaggedTokens
from headwise.errors import DataError
from headwise.model.sequence_model import SequenceModel
from headwise.openmp import num_threads, pause_openmp

MIN_TOKENS_PER_THREAD = 192
"""Tokens of a side of a batch per thread, below which another thread is not worth its
gradients and its packed weights. With 216 each, two threads take 0.7 times as long as
one, of one stack and of an encoder-decoder."""

NOT_COUNTED = -1
"""The target at positions that the loss does not count."""

Result = TypeVar("Result")


def run_in_threads(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run all calls at a time, the first in this thread; return what they return."""
    first, *others = calls
    if others:
        pause_openmp()
    waiting = [_threads().submit(each) for each in others]
    return [first(), *(each.result() for each in waiting)]


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="headwise-native")


class Sentences:
    """A batch for C; ``struct`` and its parts point at what this object keeps.

    A side that a model does not read is None; ``vectors`` is the table of a source of
    pictures. With ``consistency`` it is a doubled batch, of two passes. Dropout is
    seeded from torch's RNG.
    """

    def __init__(
        self,
        *,
        source: RaggedTokens | None = None,
        vectors: Tensor | None = None,
        decoder_input: RaggedTokens | None = None,
        targets: Tensor | None = None,
        smoothing: float = 0.0,
        consistency: Consistency | None = None,
    ) -> None:
        sides = [each for each in (source, decoder_input) if each is not None]
        self._kept: list[Tensor] = []
        self.vectors = vectors
        self._offsets = torch.stack([each.offsets for each in sides])
        self.num_tokens = len(sides[0].tokens)
        self.longest = max(int(side.lengths.max()) for side in sides)
        self.struct = TrainBatch(
            sentences=len(sides[0]),
            source=self._side(source),
            decoder_input=self._side(decoder_input),
            targets=None if targets is None else self._address(targets),
            smoothing=smoothing,
            seed=int(torch.randint(2**62, (1,))),
            consistency=_struct_of(consistency),
        )

    def parts(self) -> list[TrainBatch]:
        """Split into a batch for each thread, of about as many tokens of all sides.

        Each has consecutive sentences, and ``MIN_TOKENS_PER_THREAD`` tokens of a side
        or more: there may be one part only. Both passes of an example stay in one.
        """
        offsets = self._offsets.sum(0)
        num_tokens = int(offsets[-1])
        useful = num_tokens // (MIN_TOKENS_PER_THREAD * len(self._offsets))
        count = min(num_threads(), max(1, useful))
        wanted = torch.arange(1, count) * num_tokens // count
        cuts = torch.searchsorted(offsets, wanted)
        if self.struct.consistency.form:
            cuts -= cuts % 2
        bounds = sorted({0, *cuts.tolist(), self.struct.sentences})
        return [self._part(first, last) for first, last in pairwise(bounds)]

    def _part(self, first: int, last: int) -> TrainBatch:
        part = TrainBatch.from_buffer_copy(self.struct)
        part.sentences = last - first
        part.seed += first
        for side in (part.source, part.decoder_input):
            if side.starts is not None:
                side.starts += first * self._offsets.element_size()
        return part

    def _side(self, side: RaggedTokens | None) -> ctypes_structs.RaggedTokens:
        if side is None:
            return ctypes_structs.RaggedTokens()
        tokens, offsets = self._address(side.tokens), self._address(side.offsets)
        return ctypes_structs.RaggedTokens(tokens, offsets)

    def _address(self, each: Tensor) -> int:
        self._kept.append(each.contiguous())
        return self._kept[-1].data_ptr()


def _struct_of(consistency: Consistency | None) -> ctypes_structs.Consistency:
    if consistency is None:
        return ctypes_structs.Consistency()
    form = BOTH_WAYS if consistency.both_ways else ONE_WAY
    return ctypes_structs.Consistency(form, consistency.weight)


def check_vocabulary(tokens: Tensor, size: int) -> None:
    """Raise ``DataError`` for tokens outside the vocabulary: kernels do not check."""
    least, most = int(tokens.min()), int(tokens.max())
    if not 0 <= least <= most < size:
        raise DataError(
            f"a batch holds tokens from {least} to {most}, but the model's vocabulary "
            f"goes from 0 to {size - 1}; was the corpus prepared for another one?"
        )


class Scratch:
    """Memory for the kernels, at ``address``; to be given back after use."""

    def __init__(self, model: SequenceModel, size: int) -> None:
        self._free = _free_memory.setdefault(model, [])
        self._memory = self._take(size + ALIGNMENT)
        self.address = -(-self._memory.ctypes.data // ALIGNMENT) * ALIGNMENT

    def _take(self, size: int) -> NDArray[np.uint8]:
        with suppress(IndexError):  # another thread may have taken the last one
            while True:
                memory = self._free.pop()
                if len(memory) >= size:
                    return memory
        return np.empty(size, dtype=np.uint8)

    def give_back(self) -> None:
        """Let others have the memory."""
        self._free.append(self._memory)


_free_memory: WeakKeyDictionary[SequenceModel, list[NDArray[np.uint8]]] = (
    WeakKeyDictionary()
)
"""Memory for reuse: to allocate it anew would take a tenth of the time."""
