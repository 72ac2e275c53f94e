"""The KV cache of the native decoders, and the state it belongs to.

The cache is append-only: ``ancestors[b, t]`` is the row at step t that row b descends
from, so reordering a beam copies these indices and no keys or values. Reference:
``model/kv_cache.py``, which copies rows; ``tests/backends/native/test_decoder.py``
holds the decoders equal.

Letters used for sizes in this file:

    B  rows, one a hypothesis          P  positions decoded, or tokens of a prompt
    R  positions allocated
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headwise.backends.native.arrays import Array
from headwise.backends.native.buffer_pool import Buffer, BufferPool
from headwise.backends.native.ctypes_structs import CrossKV

FIRST_CAPACITY = 32
"""Positions allocated at the start; the capacity doubles as needed."""


class Scratch:
    """Scratch memory of the kernels, kept from step to step."""

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._size = -1
        self._address = 0

    def of(self, floats: int) -> int:
        """Return the address of so many floats, uninitialized."""
        if self._size < floats:
            self._buffer = self._pool.take(4 * floats)
            self._size, self._address = floats, self._buffer.address
        return self._address


@dataclass(frozen=True)
class EncodedSources:
    """Keys and values of N sources, shared by all rows that attend to them.

    The rows of one state take turns: they share the scratch memory.
    """

    cross_kv: CrossKV
    longest: int
    buffers: tuple[object, ...]
    """What ``cross_kv`` points to."""
    scratch: Scratch


class KVCache:
    """Keys and values of each position, for the rows that there were at that step."""

    def __init__(self, capacity: int = FIRST_CAPACITY) -> None:
        self.buffers: list[Buffer] = []
        self.blocks = np.empty(capacity, dtype=np.int64)
        """Address of each position's keys and values, [layers, rows, channels]."""
        self.rows_at = np.empty(capacity, dtype=np.int64)
        """Number of rows at each position."""

    def branch(self, position: int, more: int) -> KVCache:
        """Return the cache of the first ``position`` positions, with space for more.

        It is this very object, unless decoding goes on from an older state.
        """
        capacity = len(self.blocks)
        if len(self.buffers) == position <= capacity - more:
            return self
        other = KVCache(_doubled(capacity, position + more))
        other.buffers = self.buffers[:position]
        other.blocks[:position] = self.blocks[:position]
        other.rows_at[:position] = self.rows_at[:position]
        return other

    def append(self, buffer: Buffer, rows: int, size: int, count: int) -> None:
        """Add ``count`` positions of ``size`` bytes each, contiguous in ``buffer``."""
        position = len(self.buffers)
        added = slice(position, position + count)
        self.blocks[added] = buffer.address + size * np.arange(count)
        self.rows_at[added] = rows
        self.buffers += [buffer] * count

    def truncate(self, position: int) -> None:
        """Drop the positions from ``position`` on."""
        del self.buffers[position:]


@dataclass(frozen=True)
class NativeState:
    """State of a native decoder; a step leaves it unchanged."""

    sources: EncodedSources
    source_of: Array
    """The source of each row [B]."""
    ancestors: Array
    """Row at each step that a row descends from [B R]; from P on, the row itself."""
    position: int
    """P."""
    cache: KVCache
    padding: Array | None = None
    """Positions before the first token of each row [B]; None: there are none."""
    prompts: Array | None = None
    """What follows the first token of each row [B P], until that is given."""

    @property
    def longest(self) -> int:
        """Tokens of the longest row so far."""
        if self.padding is None:
            return self.position
        return self.position - int(self.padding.min(initial=self.position))

    def index_select(self, index: Any) -> NativeState:
        """Keep the rows at ``index``, an array or a tensor, repeats allowed."""
        kept = np.asarray(index)
        ancestors = self.ancestors[kept]
        ancestors[:, self.position :] = _own_index(len(kept))
        return NativeState(
            self.sources,
            self.source_of[kept],
            ancestors,
            self.position,
            self.cache,
            None if self.padding is None else self.padding[kept],
            None if self.prompts is None else self.prompts[kept],
        )

    def advanced(self, position: int, cache: KVCache) -> NativeState:
        """Return the state at ``position``, behind the prompts."""
        return NativeState(
            self.sources, self.source_of, self.ancestors, position, cache, self.padding
        )

    def with_capacity(self, more: int) -> NativeState:
        """Return a state that can take ``more`` positions."""
        rows, capacity = self.ancestors.shape
        if self.position + more <= capacity:
            return self
        wider = _doubled(capacity, self.position + more)
        ancestors = np.empty((rows, wider), dtype=np.int32)
        ancestors[:, :capacity] = self.ancestors
        ancestors[:, capacity:] = _own_index(rows)
        return replace(self, ancestors=ancestors)


def initial_state(
    sources: EncodedSources,
    count: int,
    padding: Array | None = None,
    prompts: Array | None = None,
) -> NativeState:
    """Return the state in which each of ``count`` sources has one empty row."""
    ancestors = np.empty((count, FIRST_CAPACITY), dtype=np.int32)
    ancestors[:] = _own_index(count)
    return NativeState(
        sources, np.arange(count), ancestors, 0, KVCache(), padding, prompts
    )


def _doubled(capacity: int, needed: int) -> int:
    while capacity < needed:
        capacity *= 2
    return capacity


def _own_index(rows: int) -> Array:
    return np.arange(rows, dtype=np.int32)[:, None]
