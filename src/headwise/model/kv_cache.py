"""The KV cache: what a decoder keeps from one generated token to the next.

Letters used for sizes: B batch rows, H heads, M positions allocated, L positions in
use, C channels of a key, V channels of a value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor

from headwise.model.attention import KeyValues
from headwise.model.masks import AttentionMask


@dataclass(eq=False)
class KVCache:
    """The self-attention keys and values of the target so far, for one decoder block.

    Memory is allocated beforehand, and doubles when full. ``append`` writes in place,
    so after a step only the newest state may be used; ``index_select`` copies.
    """

    _keys: Float[Tensor, "B H M C"]
    _values: Float[Tensor, "B H M V"]
    length: int = 0

    @classmethod
    def allocate(cls, like: KeyValues, capacity: int) -> KVCache:
        """Return an empty cache with ``capacity`` positions, shaped as ``like``."""
        return cls(
            _with_capacity(like.keys[:, :, :0], capacity),
            _with_capacity(like.values[:, :, :0], capacity),
        )

    def append(self, new: KeyValues) -> KeyValues:
        """Append the keys and values of new positions; return those of all."""
        start, end = self.length, self.length + new.keys.shape[2]
        if end > self._keys.shape[2]:
            capacity = max(end, 2 * self._keys.shape[2])
            self._keys = _with_capacity(self._keys[:, :, :start], capacity)
            self._values = _with_capacity(self._values[:, :, :start], capacity)
        self._keys[:, :, start:end] = new.keys
        self._values[:, :, start:end] = new.values
        self.length = end
        return KeyValues(self._keys[:, :, :end], self._values[:, :, :end])

    def keep_last(self, count: int) -> None:
        """Drop all positions but the last ``count``."""
        last = slice(self.length - count, self.length)
        self._keys, self._values = self._keys[:, :, last], self._values[:, :, last]
        self.length = count

    def index_select(self, index: Int[Tensor, " rows"]) -> KVCache:
        """Select batch rows, repeats allowed: how a beam search reorders its cache."""
        keys, values = (x.index_select(0, index) for x in (self._keys, self._values))
        return KVCache(keys, values, self.length)


@dataclass(frozen=True)
class DecoderState:
    """The keys and values that a decoder attends to, one entry for each block.

    ``self_kv`` is empty if a whole target is decoded at once. Only the newest state may
    be stepped on; see :class:`KVCache`.
    """

    position: int
    """Number of target tokens so far."""

    self_kv: tuple[KVCache, ...]
    cross_kv: tuple[KeyValues, ...]
    cross_mask: AttentionMask
    """Which source positions are no padding."""

    def with_kv_cache(self, capacity: int) -> DecoderState:
        """Return this state with empty KV caches, to decode token by token."""
        caches = tuple(KVCache.allocate(each, capacity) for each in self.cross_kv)
        return replace(self, self_kv=caches)

    def index_select(self, index: Int[Tensor, " rows"]) -> DecoderState:
        """Select batch rows in this order, repeats allowed."""
        return replace(
            self,
            self_kv=tuple(cache.index_select(index) for cache in self.self_kv),
            cross_kv=tuple(each.index_select(index) for each in self.cross_kv),
            cross_mask=cast(Tensor, self.cross_mask)[index],
        )


def _with_capacity(
    used: Float[Tensor, "B H L C"], capacity: int
) -> Float[Tensor, "B H M C"]:
    rows, heads, length, channels = used.shape
    buffer = used.new_empty(rows, heads, capacity, channels)
    buffer[:, :, :length] = used
    return buffer
