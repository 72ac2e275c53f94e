"""Memory that searches give back and take again.

Fresh memory is dear: the system fills each page with zeros when it is first touched,
and what a search frees at its end goes back to the system.
"""

from __future__ import annotations

from threading import RLock

import torch
from torch import Tensor

SMALL = 1 << 16
"""Bytes up to which there is nothing to gain."""

KEPT = 1 << 27
"""Bytes that are kept at most while nobody uses them."""


class Block:
    """Memory of some size; it goes back to its pool with whom uses it last."""

    def __init__(self, numbers: Tensor, pool: Pool) -> None:
        self.numbers = numbers
        self._pool = pool

    def __del__(self) -> None:
        self._pool.give_back(self.numbers)

    def data_ptr(self) -> int:
        """Return where it begins, as a tensor does."""
        return self.numbers.data_ptr()


class Pool:
    """Gives out memory, in whichever thread."""

    def __init__(self) -> None:
        self._lock = RLock()  # a block may be dropped by who has just taken it
        self._free: dict[int, list[Tensor]] = {}
        self.free_bytes = 0

    def take(self, size: int) -> Block | Tensor:
        """Return ``size`` bytes, or more, which may have held anything before."""
        if size <= SMALL:
            return torch.empty(size, dtype=torch.uint8)
        size = 1 << (size - 1).bit_length()
        with self._lock:
            free = self._free.get(size)
            if free:
                self.free_bytes -= size
                return Block(free.pop(), self)
        return Block(torch.empty(size, dtype=torch.uint8), self)

    def give_back(self, numbers: Tensor) -> None:
        """Keep memory that nobody uses any more, unless that would be much."""
        size = len(numbers)
        with self._lock:
            if self.free_bytes + size <= KEPT:
                self.free_bytes += size
                self._free.setdefault(size, []).append(numbers)
