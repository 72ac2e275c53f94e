"""Room of a fixed size on a GPU, and what was recorded to be done in it.

A GPU does the hundred small operations of a step faster than they can be asked for one
by one. Where nothing moves, they are recorded once, as a CUDA graph, and then asked for
together. So the tensors here are made once and filled again and again.

Letters used for sizes in this file:

    N  sources, each with W rows       H  heads
    B  rows, N · W                     C  channels of a key and a value together
    L  positions of either memory      V  vocabulary
    T  tokens that are written before anybody looks
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Lock, RLock
from typing import Any

import torch
from torch import Tensor

AHEAD = 8
"""Tokens that are written at most before anybody looks whether rows have ended."""

KEPT, KEPT_BYTES = 24, 1 << 31
"""Rooms, and the memory in them, that are kept at most while nobody is there."""

_RECORDING = Lock()  # CUDA records one thing at a time, in the whole process


@dataclass(frozen=True)
class Size:
    """How large a room is."""

    sources: int
    width: int
    """Rows of each source."""
    length: int
    """Positions that a source and what is written may have."""

    @property
    def rows(self) -> int:
        """Return the rows of all sources."""
        return self.sources * self.width


class Room:
    """The tensors of a size; ``do`` keeps what was recorded to be done with them."""

    def __init__(
        self,
        size: Size,
        *,
        memory: tuple[int, int, int],
        vocab_size: int,
        like: Tensor,
        pool: Any = None,
    ) -> None:
        """Make tensors for ``memory``: layers, heads, channels.

        Recordings of the same ``pool`` share what they need for the moment, so that no
        two may be under way at a time.
        """
        layers, heads, channels = memory
        self.pool = pool
        lengthwise = heads, size.length, channels
        self.size = size
        self.own = like.new_zeros(layers, size.rows, *lengthwise)  # layers B H L C
        self.source = like.new_zeros(layers, size.sources, *lengthwise)
        self.padding = like.new_zeros(size.sources, 1, 1, size.length)
        self.past = like.new_zeros(1, 1, 1, size.length)
        device = like.device
        self.given = torch.zeros(
            size.sources, size.length, dtype=torch.long, device=device
        )
        self.is_real = torch.ones_like(self.given, dtype=torch.bool)
        self.places = torch.arange(size.length, device=device)
        self.here = torch.zeros(1, dtype=torch.long, device=device)
        self.tokens = torch.zeros(size.rows, dtype=torch.long, device=device)
        self.logits = torch.zeros(size.rows, vocab_size, device=device)
        self.refused = torch.zeros(vocab_size, device=device)  # -inf or 0
        self.refuses: tuple[int, ...] = ()
        self.turn = torch.zeros(1, dtype=torch.long, device=device)
        self.log_p = torch.zeros(AHEAD, size.rows, device=device)  # T B
        self.found = torch.zeros(AHEAD, size.rows, dtype=torch.long, device=device)
        self.num_bytes = self.own.nbytes + self.source.nbytes
        self._recorded: dict[str, Callable[[], None]] = {}
        self.held: dict[str, Tensor] = {}
        """What recordings read and nobody else may keep."""

    def begin(self, here: Tensor) -> None:
        """Go on at a position with nothing remembered.

        What a former use left may be no numbers, and those times 0 are none either.
        """
        self.here.copy_(here)
        self.own.zero_()

    def refuse(self, tokens: tuple[int, ...]) -> None:
        """Let no token of these be chosen."""
        if tokens == self.refuses:
            return
        self.refused.zero_()
        known = [each for each in tokens if 0 <= each < len(self.refused)]
        self.refused[known] = -math.inf
        self.refuses = tokens

    def do(self, name: str, work: Callable[[Room], None]) -> None:
        """Do what always has the same name, on a GPU as it was recorded."""
        if name not in self._recorded:
            self._recorded[name] = self._record(work)
        self._recorded[name]()

    def _record(self, work: Callable[[Room], None]) -> Callable[[], None]:
        device = self.here.device
        if device.type != "cuda":
            return lambda: work(self)
        # Not in inference mode: what torch makes now for all recordings outlives it.
        normally = torch.inference_mode(False)
        with _RECORDING, torch.cuda.device(device), normally, torch.no_grad():
            return self._record_here(work)

    def _record_here(self, work: Callable[[Room], None]) -> Callable[[], None]:
        moving = self.here, self.turn, self.tokens
        before = [each.clone() for each in moving]
        aside, now = _aside(self.here.device), torch.cuda.current_stream()
        aside.wait_stream(now)
        with torch.cuda.stream(aside):  # libraries set themselves up at their first use
            for _ in range(2):
                work(self)
                for each, was in zip(moving, before, strict=True):
                    each.copy_(was)
        now.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            graph, self.pool, stream=aside, capture_error_mode="thread_local"
        ):
            work(self)
        replay: Callable[[], None] = graph.replay
        return replay


@cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    """Return where a device records: one stream, as each keeps memory of its own."""
    stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return stream


class Lent:
    """A room that goes back with whom uses it last."""

    def __init__(self, room: Room, rooms: Rooms) -> None:
        self.room = room
        self._rooms = rooms

    def __del__(self) -> None:
        self._rooms.give_back(self.room)


class Rooms:
    """Lends rooms, in whichever thread: a recording is too dear to be made twice."""

    def __init__(self, make: Callable[[Size], Room]) -> None:
        self._make = make
        self._lock = RLock()  # a room may be given back by who is just taking one
        self._free: list[Room] = []

    def lend(self, size: Size) -> Lent:
        """Return a room of this size, which may have been used before."""
        with self._lock:
            for room in self._free:
                if room.size == size:
                    self._free.remove(room)
                    return Lent(room, self)
        with torch.inference_mode(False):
            try:
                return Lent(self._make(size), self)
            except torch.OutOfMemoryError:
                with self._lock:
                    self._free.clear()
                torch.cuda.empty_cache()
                return Lent(self._make(size), self)

    def give_back(self, room: Room) -> None:
        """Keep a room that nobody is in any more, rather than the oldest of many."""
        with self._lock:
            self._free.append(room)
            while len(self._free) > KEPT or self._free_bytes() > KEPT_BYTES:
                del self._free[0]

    def _free_bytes(self) -> int:
        return sum(each.num_bytes for each in self._free)
