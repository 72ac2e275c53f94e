"""Sequence packing: several pairs per row, in static shapes for torch.compile.

torch.compile compiles anew for every shape. So pairs are packed into rows of equal
width on both sides, and batches have equal numbers of rows; the rest is padding. There
are two steps: :func:`split_into_packed_batches` plans an epoch by the lengths of all
pairs, and :func:`pack_batch` lays out the tokens of one batch. The forward pass of
packed rows is ``backends/pytorch/torch_compile_forward.py``.

Lengths include END. Letters used for sizes: R rows, W width of a row in tokens.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.data.ragged_batch import Batch, RaggedTokens, copy_together

Indices = NDArray[np.int64]

MIN_WIDTH = 128
"""Width of a row, unless a pair is longer: then twice that, or four times, ...

Rows of 64 have more padding, and attention costs the square of the width.
"""

ROW_MULTIPLE = 8
"""Larger numbers of rows are multiples of this, so that they can be split evenly."""


@dataclass(frozen=True, slots=True)
class PackedShape:
    """Number of rows and their width."""

    rows: int
    width: int

    @classmethod
    def of(cls, longest: int, tokens: int) -> PackedShape:
        """Return the shape for pairs of up to ``longest``, with at most ``tokens``."""
        width = int(row_width(np.array(longest)))
        rows = max(1, tokens // width)
        return cls(rows - rows % ROW_MULTIPLE if rows > ROW_MULTIPLE else rows, width)


def row_width(longest: Indices) -> Indices:
    """Return the width of the row for a pair with this longer side."""
    least = np.maximum(longest, MIN_WIDTH)
    return 1 << np.ceil(np.log2(least)).astype(np.int64)


def split_into_packed_batches(
    source: Indices, target: Indices, tokens: int
) -> list[Indices]:
    """Split pairs of these lengths, in order, into batches to be packed.

    Returns the indices of the pairs of each batch, row by row: :func:`pack_batch`, with
    next-fit packing in this order, needs no more rows.
    """
    widths = row_width(np.maximum(source, target))
    batches: list[Indices] = []
    for width in np.unique(widths).tolist():
        chosen = np.flatnonzero(widths == width)
        shape = PackedShape.of(width, tokens)
        filled = _first_fit(source[chosen].tolist(), target[chosen].tolist(), shape)
        batches += [chosen[batch] for batch in filled]
    return batches


def _first_fit(
    sources: list[int], targets: list[int], shape: PackedShape
) -> list[list[int]]:
    """Pack each pair into the first row with room (first fit), or start a new batch."""
    batches: list[list[int]] = []
    pairs: list[list[int]] = []
    room = np.zeros((2, shape.rows), dtype=np.int64)
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        fits = (room[0] >= source) & (room[1] >= target)
        row = int(fits.argmax())
        if not fits[row]:
            batches.append([pair for row in pairs for pair in row])
            pairs = [[] for _ in range(shape.rows)]
            room[:] = shape.width
            row = 0
        room[:, row] -= source, target
        pairs[row].append(number)
    batches.append([pair for row in pairs for pair in row])
    return batches[1:] if sources else []


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Pairs packed into rows: all tensors are [R W], with 0 (PAD) for padding."""

    source: Tensor
    decoder_input: Tensor
    target: Tensor

    source_pair: Tensor
    """Number of the pair that each token belongs to, from 1; keeps attention inside."""

    target_pair: Tensor
    source_position: Tensor
    target_position: Tensor

    longest: int
    """Length of the longest sequence: above every position."""

    weight: float = 1.0
    """What the loss is multiplied by: see :class:`Batch`."""

    def __len__(self) -> int:
        return len(self.source)

    @property
    def padded_tokens(self) -> int:
        """Tokens of one side, padding included."""
        return self.source.numel()

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors, by name."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: it for name, it in found.items() if isinstance(it, Tensor)}

    def to(self, device: torch.device | str) -> PackedBatch:
        """Return this batch on ``device``, copied at once."""
        tensors = self.tensors
        moved = copy_together([*tensors.values()], device)
        named: dict[str, Any] = dict(zip(tensors, moved, strict=True))
        return replace(self, **named)


def pack_batch(batch: Batch, shape: PackedShape) -> list[PackedBatch]:
    """Pack ``batch`` into batches of ``shape``, as many as it needs.

    Pairs keep their order, and must not be longer than a row.
    """
    source, target = batch.source, batch.target
    lengths = source.lengths.numpy(), target.lengths.numpy()
    row_of, first = _next_fit(*lengths, shape.width)
    count = -(-(int(row_of[-1]) + 1) // shape.rows)  # full batches

    def to_rows(values: Tensor, slots: Tensor) -> Tensor:
        rows = torch.zeros(count * shape.rows * shape.width, dtype=torch.int64)
        rows[slots] = values
        return rows.view(count, shape.rows, shape.width)

    source_slots, target_slots = (
        _slots(side, row_of, first, shape.width) for side in (source, target)
    )
    packed = {
        "source": to_rows(source.tokens, source_slots),
        "decoder_input": to_rows(batch.decoder_input.tokens, target_slots),
        "target": to_rows(target.tokens, target_slots),
        "source_pair": to_rows(source.row_index + 1, source_slots),
        "target_pair": to_rows(target.row_index + 1, target_slots),
        "source_position": to_rows(source.positions, source_slots),
        "target_position": to_rows(target.positions, target_slots),
    }
    longest = max(int(each.max()) for each in lengths)
    return [
        PackedBatch(
            **{name: tensor[part] for name, tensor in packed.items()},
            longest=longest,
            weight=batch.weight,
        )
        for part in range(count)
    ]


def _slots(side: RaggedTokens, row_of: Indices, first: Indices, width: int) -> Tensor:
    """Return the index of each token in the flattened rows.

    ``row_of`` has the row of each pair, ``first`` the first pair of each row.
    """
    begins = side.offsets[:-1]
    starts = torch.from_numpy(row_of) * width + begins - begins[first[row_of]]
    return starts[side.row_index] + side.positions


def _next_fit(source: Indices, target: Indices, width: int) -> tuple[Indices, Indices]:
    """Pack pairs into rows in order (next fit), which is optimal for a fixed order.

    Returns the row of each pair, and the first pair of each row.
    """
    # Lists: numpy's own search takes longer to be called than to search.
    ends = [np.cumsum(side).tolist() for side in (source, target)]
    first = [0]
    while True:
        start = first[-1]
        stop = min(
            bisect_right(end, (end[start - 1] if start else 0) + width, start)
            for end in ends
        )
        assert stop > start, "a pair is longer than its row"
        if stop == len(source):
            break
        first.append(stop)
    counts = np.diff([*first, len(source)])
    return np.repeat(np.arange(len(first)), counts), np.array(first)
