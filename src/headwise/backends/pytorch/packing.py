"""Real tokens side by side, without the padding between them: how training goes.

    padded  [B L D]   as batches come
    packed  [1 N D]   the real tokens, sentence after sentence, then filler

Of the boxes of Figure 1 all but attention treat each position alone, so none of them
needs padding. N is a round number, because libraries prepare each product anew for a
shape that they have not seen; the last row is always filler.

Letters used for sizes in this file:

    B  batch rows    L  positions    N  packed rows    H  heads    C  channels of a head
    Q  positions that ask            K  positions that are asked
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
    """Where the real tokens of a padded batch stand in a packed one, and back."""

    rows: int
    length: int
    num_heads: int
    num_real: int

    places: Int[Tensor, " N"]
    """Place in [B·L] of each packed row; filler stands for the first."""

    packed_rows: Int[Tensor, " BL"]
    """Packed row of each place in [B·L]; padding is in the last, which is filler."""

    @classmethod
    def of(cls, is_real: Bool[Tensor, "B L"], num_heads: int) -> Packing:
        """Plan how to pack a batch for attention with this many heads."""
        real = is_real.flatten().nonzero()[:, 0]
        size = (len(real) // ROUND + 1) * ROUND
        places = real.new_zeros(size)
        places[: len(real)] = real
        packed_rows = real.new_full((is_real.numel(),), size - 1)
        packed_rows[real] = torch.arange(len(real), device=real.device)
        rows, length = is_real.shape
        return cls(rows, length, num_heads, len(real), places, packed_rows)

    def pack(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "1 N D"]:
        """Leave the padding out."""
        return x.flatten(0, 1).index_select(0, self.places)[None]

    def heads_apart(self, x: Float[Tensor, "1 H N C"]) -> Float[Tensor, "BH L C"]:
        """Lay out each head of each sentence as a matrix, padding included."""
        rows = x.transpose(1, 2).reshape(-1, x.shape[-1])  # 1 H N C -> N·H C
        apart = rows.index_select(0, self._to_heads)
        return apart.view(self.rows * self.num_heads, self.length, -1)

    @property
    def shape_apart(self) -> tuple[int, int, int, int]:
        """[B H L C] of heads that are apart, as a view takes it."""
        return self.rows, self.num_heads, self.length, -1

    def heads_joined(self, x: Float[Tensor, "BH L C"]) -> Float[Tensor, "1 H N C"]:
        """Undo :meth:`heads_apart`, which is also its gradient; filler becomes 0."""
        rows = x.reshape(-1, x.shape[-1]).index_select(0, self._from_heads)
        rows[self.num_real * self.num_heads :] = 0
        return rows.view(1, -1, self.num_heads, x.shape[-1]).transpose(1, 2)

    @cached_property
    def _to_heads(self) -> Int[Tensor, " BHL"]:
        heads = torch.arange(self.num_heads, device=self.places.device)
        rows = self.packed_rows.view(self.rows, 1, self.length) * self.num_heads
        return (rows + heads[:, None]).flatten()

    @cached_property
    def _from_heads(self) -> Int[Tensor, " NH"]:
        heads = torch.arange(self.num_heads, device=self.places.device)
        row, position = self.places // self.length, self.places % self.length
        matrix = row[:, None] * self.num_heads + heads
        return (matrix * self.length + position[:, None]).flatten()


@dataclass(frozen=True)
class PackedMask(BackendMask):
    """Who may look at whom, where both who asks and who is asked are packed.

    Each sentence must have a token that may be looked at.
    """

    queries: Packing
    keys: Packing
    may_attend: Bool[Tensor, "#B 1 #Q K"]

    @cached_property
    def hidden(self) -> Float[Tensor, "BH Q K"]:
        """What is added to scores; kept, since every block asks for the same."""
        lengths = self.queries.length, self.keys.length
        shape = self.queries.rows, self.queries.num_heads, *lengths
        return hiding(self.may_attend, shape, torch.float32)


def hiding(
    may_attend: Bool[Tensor, "#B #H #Q #K"],
    shape: tuple[int, int, int, int],
    dtype: torch.dtype,
) -> Float[Tensor, "BH Q K"]:
    """Return what hides scores of ``shape`` [B H Q K] when added to them: −∞ or 0."""
    hidden = torch.zeros(may_attend.shape, dtype=dtype, device=may_attend.device)
    hidden.masked_fill_(~may_attend, -math.inf)
    return hidden.expand(shape).flatten(0, 1)


AnyMask = Bool[Tensor, "#B #H #Q _"] | PackedMask
"""A mask over padded positions, or one that also tells how to unpack."""
