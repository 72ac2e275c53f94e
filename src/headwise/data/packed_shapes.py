"""Pairs in rows of one length, several to a row: batches of few shapes.

What is compiled for a shape must be compiled anew for another. So pairs are put into
rows that are equally long on both sides, and a batch always has as many rows; what is
left empty is filler. Lengths count END.

Letters used for sizes in this file: R rows, W places of a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

MIN_WIDTH = 128
"""Places of a row where no pair is longer; else twice as many, or four times, ...

Rows of 64 are filled worse, and attention costs the square of the width.
"""

ROW_MULTIPLE = 8
"""From these on rows come in multiples of it, which can be cut into equal pieces."""


@dataclass(frozen=True, slots=True)
class PackedShape:
    """How many rows of how many places."""

    rows: int
    width: int

    @classmethod
    def of(cls, longest: int, tokens: int) -> PackedShape:
        """Return the rows for pairs of up to ``longest`` that hold most ``tokens``."""
        width = int(row_width(np.array(longest)))
        rows = max(1, tokens // width)
        return cls(rows - rows % ROW_MULTIPLE if rows > ROW_MULTIPLE else rows, width)


def row_width(longest: Indices) -> Indices:
    """Return the width of the row that a pair with this longer side goes into."""
    least = np.maximum(longest, MIN_WIDTH)
    return 1 << np.ceil(np.log2(least)).astype(np.int64)


def pack_batches(source: Indices, target: Indices, tokens: int) -> list[Indices]:
    """Cut pairs of these lengths, in their order, into batches that fill rows.

    Returns which pairs go into each batch, row after row, so that whoever fills rows
    with them in this order needs no more rows (:mod:`headwise.data.sequence_packing`).
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
    """Put each pair into the first row that has room; without any, a batch is full."""
    batches: list[list[int]] = []
    pairs: list[list[int]] = []
    room = np.zeros((2, shape.rows), dtype=np.int64)
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        fits = (room[0] >= source) & (room[1] >= target)
        row = int(fits.argmax())
        if not fits[row]:
            batches.append([pair for filled in pairs for pair in filled])
            pairs = [[] for _ in range(shape.rows)]
            room[:] = shape.width
            row = 0
        room[:, row] -= source, target
        pairs[row].append(number)
    batches.append([pair for filled in pairs for pair in filled])
    return batches[1:] if sources else []
