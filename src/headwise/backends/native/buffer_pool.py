"""A pool of memory buffers that searches reuse.

Fresh memory is expensive: the system zeroes each page at its first use, and takes back
what is freed. Reference: ``torch.empty``; ``tests/backends/native/test_buffer_pool.py``
checks that no two users share a buffer.
"""

from __future__ import annotations

from threading import RLock

import torch
from torch import Tensor

MIN_POOLED_BYTES = 1 << 16
"""Smaller buffers are allocated anew: there is nothing to gain."""

MAX_FREE_BYTES = 1 << 27
"""Upper bound of the memory kept while nobody uses it."""


class Buffer:
    """Memory of some size; it returns to its pool when it is garbage-collected."""

    def __init__(self, memory: Tensor, pool: BufferPool) -> None:
        self.memory = memory
        self._pool = pool

    def __del__(self) -> None:
        self._pool.give_back(self.memory)

    def data_ptr(self) -> int:
        """Return its address, as a tensor does."""
        return self.memory.data_ptr()


class BufferPool:
    """Hands out buffers, in any thread."""

    def __init__(self) -> None:
        self._lock = RLock()  # garbage collection may run while a buffer is taken
        self._free: dict[int, list[Tensor]] = {}
        self.free_bytes = 0

    def take(self, size: int) -> Buffer | Tensor:
        """Return at least ``size`` bytes, uninitialized."""
        if size <= MIN_POOLED_BYTES:
            return torch.empty(size, dtype=torch.uint8)
        size = 1 << (size - 1).bit_length()
        with self._lock:
            free = self._free.get(size)
            if free:
                self.free_bytes -= size
                return Buffer(free.pop(), self)
        return Buffer(torch.empty(size, dtype=torch.uint8), self)

    def give_back(self, memory: Tensor) -> None:
        """Keep a buffer for reuse, within ``MAX_FREE_BYTES``."""
        size = len(memory)
        with self._lock:
            if self.free_bytes + size <= MAX_FREE_BYTES:
                self.free_bytes += size
                self._free.setdefault(size, []).append(memory)
