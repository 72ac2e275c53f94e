"""What compiled kernels carry from one token to the next.

What rows have written stays where it is: a row knows which row of each earlier step it
stems from, so that picking rows copies nothing but these numbers.

Letters used for sizes in this file:

    B  rows, one a hypothesis          P  positions written
    R  positions set aside
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from headwise.backends.native.buffer_pool import Block, Pool
from headwise.backends.native.ctypes_structs import SourceMemory

FIRST_ROOM = 32
"""Positions set aside when writing starts; the room doubles as needed."""

Numbers = NDArray[Any]


def address(numbers: Numbers) -> int:
    """Return where an array begins, in less time than ``ctypes.data`` takes."""
    begins: int = numbers.__array_interface__["data"][0]
    return begins


class Room:
    """Memory for what is computed on the way, kept from step to step."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._size = -1
        self._address = 0

    def of(self, floats: int) -> int:
        """Return the address of so many floats, which may have held others before."""
        if self._size < floats:
            self._held = self._pool.take(4 * floats)
            self._size, self._address = floats, self._held.data_ptr()
        return self._address


@dataclass(frozen=True)
class Sources:
    """What N sources were read to, for every row that writes from them.

    Who writes from them takes turns: the room is one for all.
    """

    memory: SourceMemory
    longest: int
    held: tuple[object, ...]
    """What ``memory`` points to."""
    room: Room


class Records:
    """Keys and values of each position, of the rows of that time."""

    def __init__(self, room: int = FIRST_ROOM) -> None:
        self.kept: list[Block | Tensor] = []
        self.begin = np.empty(room, dtype=np.int64)
        """Where the numbers of each position begin."""
        self.rows = np.empty(room, dtype=np.int64)
        """How many rows there were."""

    def of(self, position: int, more: int) -> Records:
        """Return what was written before ``position``, with room for ``more`` of them.

        It is this very object, unless an older state is gone on with.
        """
        room = len(self.begin)
        if len(self.kept) == position <= room - more:
            return self
        other = Records(_doubled(room, position + more))
        other.kept = self.kept[:position]
        other.begin[:position] = self.begin[:position]
        other.rows[:position] = self.rows[:position]
        return other

    def add(self, held: Block | Tensor, rows: int, size: int, count: int) -> None:
        """Let the next ``count`` positions have ``size`` bytes each of what is held.

        Those of one position are [layers, rows, channels].
        """
        position = len(self.kept)
        places = slice(position, position + count)
        self.begin[places] = held.data_ptr() + size * np.arange(count)
        self.rows[places] = rows
        self.kept += [held] * count

    def end_at(self, position: int) -> None:
        """Forget what was meant for later positions and was not written."""
        del self.kept[position:]


@dataclass(frozen=True)
class CompiledState:
    """What is written and read so far; stepping on leaves it as it is."""

    sources: Sources
    source_of: Numbers
    """The source of each row [B]."""
    stems: Numbers
    """Which row of each step a row stems from [B R]; from P on, each from itself."""
    position: int
    """P."""
    records: Records

    def rows(self, index: Int[Tensor, " rows"]) -> CompiledState:
        """Keep these rows, repeats allowed."""
        kept = index.numpy()
        stems = self.stems[kept]
        stems[:, self.position :] = _themselves(len(kept))
        return CompiledState(
            self.sources, self.source_of[kept], stems, self.position, self.records
        )

    def with_room(self, more: int) -> CompiledState:
        """Set more positions aside, if there are too few for so many."""
        rows, room = self.stems.shape
        if self.position + more <= room:
            return self
        wider = _doubled(room, self.position + more)
        stems = np.empty((rows, wider), dtype=np.int32)
        stems[:, :room] = self.stems
        stems[:, room:] = _themselves(rows)
        return CompiledState(
            self.sources, self.source_of, stems, self.position, self.records
        )


def nothing_written(sources: Sources, count: int) -> CompiledState:
    """Return the state in which each of ``count`` sources has a row."""
    stems = np.empty((count, FIRST_ROOM), dtype=np.int32)
    stems[:] = _themselves(count)
    return CompiledState(sources, np.arange(count), stems, 0, Records())


def _doubled(room: int, needed: int) -> int:
    while room < needed:
        room *= 2
    return room


def _themselves(rows: int) -> Numbers:
    return np.arange(rows, dtype=np.int32)[:, None]
