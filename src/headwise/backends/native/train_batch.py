"""A batch as the C training kernels read it, and the memory that they work in.

Its reference is the batch itself (:mod:`headwise.data.ragged_batch`).
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.backends.native import ctypes_structs
from headwise.backends.native.ctypes_structs import ALIGNMENT, TrainBatch
from headwise.data.ragged_batch import RaggedTokens
from headwise.errors import DataError
from headwise.model.sequence_model import SequenceModel


class Sentences:
    """A batch for C; ``struct`` points at what this object keeps.

    A side that a model does not read is None. Dropout is seeded from torch's RNG.
    """

    def __init__(
        self,
        *,
        source: RaggedTokens | None = None,
        decoder_input: RaggedTokens | None = None,
        targets: Tensor | None = None,
        smoothing: float = 0.0,
    ) -> None:
        sides = [each for each in (source, decoder_input) if each is not None]
        self._kept: list[Tensor] = []
        self.count = len(sides[0])
        self.num_tokens = len(sides[0].tokens)
        self.longest = max(int(side.lengths.max()) for side in sides)
        self.struct = TrainBatch(
            sentences=self.count,
            source=self._side(source),
            decoder_input=self._side(decoder_input),
            targets=None if targets is None else self._address(targets),
            smoothing=smoothing,
            seed=int(torch.randint(2**62, (1,))),
        )

    def _side(self, side: RaggedTokens | None) -> ctypes_structs.RaggedTokens:
        if side is None:
            return ctypes_structs.RaggedTokens()
        tokens, offsets = self._address(side.tokens), self._address(side.offsets)
        return ctypes_structs.RaggedTokens(tokens, offsets)

    def _address(self, each: Tensor) -> int:
        self._kept.append(each.contiguous())
        return self._kept[-1].data_ptr()


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
        while self._free:
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
