"""A pool of memory buffers that searches reuse.

Fresh memory is expensive: the system zeroes each page at its first use, and takes back
what is freed. Reference: ``numpy.empty``; ``tests/backends/native/test_buffer_pool.py``
checks that no two users share a buffer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwise.backends.native.arrays import address
from headwise.backends.native.ctypes_structs import ALIGNMENT
from headwise.fork_safe_lock import ForkSafeLock

Memory = NDArray[np.uint8]

MIN_POOLED_BYTES = 1 << 16
"""Smaller buffers are allocated anew: there is nothing to gain."""

MAX_FREE_BYTES = 1 << 27
"""Upper bound of the memory kept while nobody uses it."""


def aligned_bytes(size: int) -> Memory:
    """Allocate memory that begins at a multiple of ``ALIGNMENT``, uninitialized."""
    memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -address(memory) % ALIGNMENT
    return memory[start : start + size]


class Buffer:
    """Memory of some size; it returns to its pool when it is garbage-collected.

    ``address`` is that of its first byte.
    """

    def __init__(self, memory: Memory, pool: BufferPool | None = None) -> None:
        self.memory = memory
        self.address = address(memory)
        self._pool = pool

    def __del__(self) -> None:
        if self._pool is not None:
            self._pool.give_back(self.memory)


class BufferPool:
    """Hands out buffers, in any thread."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._free: dict[int, list[Memory]] = {}
        self.free_bytes = 0

    def take(self, size: int) -> Buffer:
        """Return at least ``size`` bytes, uninitialized."""
        if size <= MIN_POOLED_BYTES:
            return Buffer(aligned_bytes(size))
        size = 1 << (size - 1).bit_length()
        with self._lock.held():
            free = self._free.get(size)
            if free:
                self.free_bytes -= size
                return Buffer(free.pop(), self)
        return Buffer(aligned_bytes(size), self)

    def give_back(self, memory: Memory) -> None:
        """Keep a buffer for reuse, within ``MAX_FREE_BYTES``."""
        size = len(memory)
        with self._lock.held():
            if self.free_bytes + size <= MAX_FREE_BYTES:
                self.free_bytes += size
                self._free.setdefault(size, []).append(memory)
