"""Shapes of packed batches: several pairs per row, so that few shapes occur.

torch.compile compiles anew for every shape. So pairs are packed into rows of equal
width on both sides, and batches have equal numbers of rows; the rest is padding.
Lengths include END. See :mod:`headwise.data.sequence_packing`.

Letters used for sizes in this file: R rows, W width of a row in tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


def pack_batches(source: Indices, target: Indices, tokens: int) -> list[Indices]:
    """Split pairs of these lengths, in order, into packed batches.

    Returns the indices of the pairs of each batch, row by row: next-fit packing in this
    order (:mod:`headwise.data.sequence_packing`) needs no more rows.
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
