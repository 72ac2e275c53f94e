"""Static buffers on a GPU, and the CUDA graphs captured over them.

A GPU runs the hundred small kernels of a decoding step faster than they can be launched
one by one. With static shapes and addresses they are captured once as a CUDA graph and
then replayed in one call; so these tensors are allocated once and filled again and
again. Reference: the same function run eagerly, which is what happens on a CPU;
``tests/backends/cuda/test_cuda_graph_decoder.py`` runs both.

Letters used for sizes in this file:

    N  sources, each with W rows       H  heads
    B  rows, N · W                     C  channels of a key and a value together
    L  positions of either KV cache    V  vocabulary
    T  steps between two synchronizations
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

MAX_STEPS_AHEAD = 8
"""Greedy steps between two synchronizations with the host."""

MAX_FREE, MAX_FREE_BYTES = 24, 1 << 31
"""Unused buffers that are kept at most, and their memory."""

CAPTURING = Lock()  # CUDA captures one graph at a time, in the whole process


@dataclass(frozen=True)
class BufferSize:
    """The shape of a set of buffers."""

    sources: int
    width: int
    """Rows of each source."""
    length: int
    """Positions of a source, and of the target."""

    @property
    def rows(self) -> int:
        """Return the rows of all sources."""
        return self.sources * self.width


class StaticBuffers:
    """The tensors of one size, and the graphs captured over them (``replay``)."""

    def __init__(
        self,
        size: BufferSize,
        *,
        kv_shape: tuple[int, int, int],
        vocab_size: int,
        like: Tensor,
        graph_pool: Any = None,
    ) -> None:
        """Allocate buffers with KV caches of ``kv_shape``: layers, heads, channels.

        Graphs of the same ``graph_pool`` share their temporary memory, so no two of
        them may run at a time.
        """
        layers, heads, channels = kv_shape
        self.graph_pool = graph_pool
        per_row = heads, size.length, channels
        self.size = size
        self.self_kv = like.new_zeros(layers, size.rows, *per_row)  # layers B H L C
        self.cross_kv = like.new_zeros(layers, size.sources, *per_row)
        self.cross_mask = like.new_zeros(size.sources, 1, 1, size.length)
        self.self_mask = like.new_zeros(1, 1, 1, size.length)
        device = like.device
        self.source = torch.zeros(
            size.sources, size.length, dtype=torch.long, device=device
        )
        self.source_is_real = torch.ones_like(self.source, dtype=torch.bool)
        self.all_positions = torch.arange(size.length, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.tokens = torch.zeros(size.rows, dtype=torch.long, device=device)
        self.logits = torch.zeros(size.rows, vocab_size, device=device)
        self.forbidden_mask = torch.zeros(vocab_size, device=device)  # -inf or 0
        self.forbidden: tuple[int, ...] = ()
        self.step_index = torch.zeros(1, dtype=torch.long, device=device)
        self.step_log_p = torch.zeros(MAX_STEPS_AHEAD, size.rows, device=device)  # T B
        self.step_tokens = torch.zeros(
            MAX_STEPS_AHEAD, size.rows, dtype=torch.long, device=device
        )
        self.num_bytes = self.self_kv.nbytes + self.cross_kv.nbytes
        self._replays: dict[str, Callable[[], None]] = {}
        self.kept_alive: dict[str, Tensor] = {}
        """Tensors that graphs read and nothing else may keep."""

    def reset(self, position: Tensor) -> None:
        """Go on at a position with an empty KV cache.

        It is zeroed: old numbers may be NaN, and NaN times a weight of 0 is NaN.
        """
        self.position.copy_(position)
        self.self_kv.zero_()

    def forbid(self, tokens: tuple[int, ...]) -> None:
        """Exclude these tokens from greedy steps."""
        if tokens == self.forbidden:
            return
        self.forbidden_mask.zero_()
        known = [each for each in tokens if 0 <= each < len(self.forbidden_mask)]
        self.forbidden_mask[known] = -math.inf
        self.forbidden = tokens

    def replay(self, name: str, function: Callable[[StaticBuffers], None]) -> None:
        """Run ``function``: captured at the first call by this name, then replayed.

        On a CPU it just runs.
        """
        if name not in self._replays:
            self._replays[name] = self._capture(function)
        self._replays[name]()

    def _capture(self, function: Callable[[StaticBuffers], None]) -> Callable[[], None]:
        device = self.position.device
        if device.type != "cuda":
            return lambda: function(self)
        # Not in inference mode: tensors that torch creates for all graphs outlive it.
        normally = torch.inference_mode(False)
        with CAPTURING, torch.cuda.device(device), normally, torch.no_grad():
            return self._capture_graph(function)

    def _capture_graph(
        self, function: Callable[[StaticBuffers], None]
    ) -> Callable[[], None]:
        advanced = self.position, self.step_index, self.tokens
        before = [each.clone() for each in advanced]
        stream = capture_stream(self.position.device)
        current = torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):  # warm-up: libraries initialize at first use
            for _ in range(2):
                function(self)
                for each, value in zip(advanced, before, strict=True):
                    each.copy_(value)
        current.wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            graph, self.graph_pool, stream=stream, capture_error_mode="thread_local"
        ):
            function(self)
        replay: Callable[[], None] = graph.replay
        return replay


@cache
def capture_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream that captures on a device: one, as each has its own memory."""
    stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return stream


class Lease:
    """Leased buffers: they return to the pool when it is garbage-collected."""

    def __init__(self, buffers: StaticBuffers, pool: BufferPool) -> None:
        self.buffers = buffers
        self._pool = pool

    def __del__(self) -> None:
        self._pool.give_back(self.buffers)


class BufferPool:
    """Leases static buffers, in any thread: capturing is too slow to be repeated."""

    def __init__(self, make: Callable[[BufferSize], StaticBuffers]) -> None:
        self._make = make
        self._lock = RLock()  # garbage collection may run while buffers are leased
        self._free: list[StaticBuffers] = []

    def lease(self, size: BufferSize) -> Lease:
        """Return buffers of this size, with what an earlier user left in them."""
        with self._lock:
            for buffers in self._free:
                if buffers.size == size:
                    self._free.remove(buffers)
                    return Lease(buffers, self)
        with torch.inference_mode(False):
            try:
                return Lease(self._make(size), self)
            except torch.OutOfMemoryError:
                with self._lock:
                    self._free.clear()
                torch.cuda.empty_cache()
                return Lease(self._make(size), self)

    def give_back(self, buffers: StaticBuffers) -> None:
        """Return buffers to the free list; evict the oldest beyond the limits."""
        with self._lock:
            self._free.append(buffers)
            while len(self._free) > MAX_FREE or self._free_bytes() > MAX_FREE_BYTES:
                del self._free[0]

    def _free_bytes(self) -> int:
        return sum(each.num_bytes for each in self._free)
