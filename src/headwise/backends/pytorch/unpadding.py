"""Batches without padding: the real tokens packed into one row.

    padded  [B L D]   as batches come
    packed  [1 N D]   the real tokens, sentence after sentence, then filler

All boxes of Figure 1 but attention are position-wise, so they need no padding. N is a
round number, because libraries prepare a matmul anew for each new shape; the last
position is always filler. The reference is the padded batch;
``tests/backends/pytorch/test_unpadding.py`` holds both equal.

Letters used for sizes in this file:

    B  batch rows    L  positions    N  packed rows    H  heads    C  channels of a head
    Q  query positions               K  key positions
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.model.masks import BackendMask

ROUND = 256


@dataclass(frozen=True)
class Packing:
    """Index maps between a padded batch and a packed one."""

    rows: int
    length: int
    num_heads: int
    num_real: int

    padded_index: Int[Tensor, " N"]
    """Index in [B·L] of each packed position; that of filler is 0."""

    packed_index: Int[Tensor, " BL"]
    """Packed position of each index in [B·L]; that of padding is the last, filler."""

    @classmethod
    def of(cls, is_real: Bool[Tensor, "B L"], num_heads: int) -> Packing:
        """Return the maps for a batch and attention with this many heads."""
        real = is_real.flatten().nonzero()[:, 0]
        size = (len(real) // ROUND + 1) * ROUND
        padded_index = real.new_zeros(size)
        padded_index[: len(real)] = real
        packed_index = real.new_full((is_real.numel(),), size - 1)
        packed_index[real] = torch.arange(len(real), device=real.device)
        rows, length = is_real.shape
        return cls(rows, length, num_heads, len(real), padded_index, packed_index)

    def pack(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "1 N D"]:
        """Remove the padding."""
        return x.flatten(0, 1).index_select(0, self.padded_index)[None]

    def split_heads(self, x: Float[Tensor, "1 H N C"]) -> Float[Tensor, "BH L C"]:
        """Return a padded matrix for each head of each sentence."""
        rows = x.transpose(1, 2).reshape(-1, x.shape[-1])  # 1 H N C -> N·H C
        split = rows.index_select(0, self._split_index)
        return split.view(self.rows * self.num_heads, self.length, -1)

    @property
    def split_shape(self) -> tuple[int, int, int, int]:
        """The shape [B H L C] of split heads, for ``view``."""
        return self.rows, self.num_heads, self.length, -1

    def merge_heads(self, x: Float[Tensor, "BH L C"]) -> Float[Tensor, "1 H N C"]:
        """Invert :meth:`split_heads`, which is also its gradient; filler becomes 0."""
        rows = x.reshape(-1, x.shape[-1]).index_select(0, self._merge_index)
        rows[self.num_real * self.num_heads :] = 0
        return rows.view(1, -1, self.num_heads, x.shape[-1]).transpose(1, 2)

    @cached_property
    def _split_index(self) -> Int[Tensor, " BHL"]:
        heads = torch.arange(self.num_heads, device=self.padded_index.device)
        rows = self.packed_index.view(self.rows, 1, self.length) * self.num_heads
        return (rows + heads[:, None]).flatten()

    @cached_property
    def _merge_index(self) -> Int[Tensor, " NH"]:
        heads = torch.arange(self.num_heads, device=self.padded_index.device)
        row, position = (
            self.padded_index // self.length,
            self.padded_index % self.length,
        )
        matrix = row[:, None] * self.num_heads + heads
        return (matrix * self.length + position[:, None]).flatten()


@dataclass(frozen=True)
class PackedMask(BackendMask):
    """An attention mask for packed queries and keys.

    Each sentence must have a key that may be attended to.
    """

    queries: Packing
    keys: Packing
    may_attend: Bool[Tensor, "#B 1 #Q K"]

    @cached_property
    def additive(self) -> Float[Tensor, "BH Q K"]:
        """The mask to add to scores; cached, since every block needs the same."""
        lengths = self.queries.length, self.keys.length
        shape = self.queries.rows, self.queries.num_heads, *lengths
        return additive_mask(self.may_attend, shape, torch.float32)


def additive_mask(
    may_attend: Bool[Tensor, "#B #H #Q #K"],
    shape: tuple[int, int, int, int],
    dtype: torch.dtype,
) -> Float[Tensor, "BH Q K"]:
    """Return a mask to add to scores of ``shape`` [B H Q K]: −∞ or 0."""
    mask = torch.zeros(may_attend.shape, dtype=dtype, device=may_attend.device)
    mask.masked_fill_(~may_attend, -math.inf)
    return mask.expand(shape).flatten(0, 1)


AnyMask = Bool[Tensor, "#B #H #Q _"] | PackedMask
"""A mask over padded positions, or one for packed ones."""
