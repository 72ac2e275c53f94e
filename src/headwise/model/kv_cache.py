"""The KV cache: what a decoder keeps from one generated token to the next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor

from headwise.model.attention import KeyValues
from headwise.model.masks import MayAttend


class KVCache:
    """Keys and values of the target so far, in memory allocated beforehand.

    It doubles when it is full. ``extended`` writes in place, so after a step only
    the newest state may be used; ``rows`` copies, so it may be called at any time.
    """

    def __init__(self, like: KeyValues, room: int) -> None:
        self.length = 0
        self._keys = _with_room(like.keys, room)
        self._values = _with_room(like.values, room)

    def extended(self, newer: KeyValues) -> KeyValues:
        """Append ``newer`` and return all keys and values."""
        end = self.length + newer.keys.shape[2]
        if end > self._keys.shape[2]:
            room = max(end, 2 * self._keys.shape[2])
            self._keys = _grown(self._keys, self.length, room)
            self._values = _grown(self._values, self.length, room)
        self._keys[:, :, self.length : end] = newer.keys
        self._values[:, :, self.length : end] = newer.values
        self.length = end
        return KeyValues(self._keys[:, :, :end], self._values[:, :, :end])

    def rows(self, index: Int[Tensor, " rows"]) -> KVCache:
        """Keep these batch rows, repeats allowed: how a beam keeps its survivors."""
        kept = object.__new__(KVCache)
        kept.length = self.length
        kept._keys = _picked(self._keys, index, self.length)
        kept._values = _picked(self._values, index, self.length)
        return kept


@dataclass(frozen=True)
class DecoderState:
    """What a decoder knows: one entry for each of its blocks.

    ``self_kv`` is empty where a whole target is decoded at once. The newest state alone
    may be stepped on; see :class:`KVCache`.
    """

    position: int
    self_kv: tuple[KVCache, ...]
    cross_kv: tuple[KeyValues, ...]
    cross_may_attend: MayAttend

    def with_cache(self, room: int) -> DecoderState:
        """Return this state with an empty KV cache, to decode token by token."""
        return replace(
            self, self_kv=tuple(KVCache(each, room) for each in self.cross_kv)
        )

    def after(self, tokens: int) -> DecoderState:
        """Return the state ``tokens`` positions further on."""
        return replace(self, position=self.position + tokens)

    def rows(self, index: Int[Tensor, " rows"]) -> DecoderState:
        """Keep these batch rows, repeats allowed."""
        return replace(
            self,
            self_kv=tuple(cache.rows(index) for cache in self.self_kv),
            cross_kv=tuple(each.rows(index) for each in self.cross_kv),
            cross_may_attend=cast(Tensor, self.cross_may_attend)[index],
        )


def _with_room(like: Float[Tensor, "B H L C"], room: int) -> Float[Tensor, "B H R C"]:
    rows, heads, _, channels = like.shape
    return like.new_empty(rows, heads, room, channels)


def _grown(
    full: Float[Tensor, "B H L C"], length: int, room: int
) -> Float[Tensor, "B H R C"]:
    wider = _with_room(full, room)
    wider[:, :, :length] = full[:, :, :length]
    return wider


def _picked(
    full: Float[Tensor, "B H L C"], index: Int[Tensor, " rows"], length: int
) -> Float[Tensor, "rows H L C"]:
    kept = full.new_empty(len(index), *full.shape[1:])
    kept[:, :, :length] = full[:, :, :length].index_select(0, index)
    return kept
