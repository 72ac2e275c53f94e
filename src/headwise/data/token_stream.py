"""Text as one long row of tokens, and windows of it.

A prepared corpus of documents (:mod:`headwise.data.prepare_documents`) is trained on in
windows of equal length. Their order is in :mod:`headwise.data.window_order`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwise.data.example_stores import Side, WeightedRange
from headwise.data.npy_files import MappedNpyFile
from headwise.errors import DataError

Indices = NDArray[np.int64]


class TokenStream:
    """A memory-mapped row of tokens, END after each document.

    A window is named by the index of its first token. The source side of a batch is
    empty; see :class:`headwise.data.example_stores.PairStore`, whose interface this is.
    """

    ends = (False, False)

    def __init__(
        self,
        tokens: Path,
        offsets: Path,
        window: int,
        weights: Sequence[float] | None = None,
    ) -> None:
        self._tokens = MappedNpyFile(tokens)
        bounds = MappedNpyFile(offsets).values.tolist()
        self.window = window
        weights = weights or [1.0] * (len(bounds) - 1)
        if bounds[-1] != len(self._tokens.values) or len(weights) != len(bounds) - 1:
            raise DataError(f"{offsets} does not fit {tokens}; prepare the text again")
        self.ranges = tuple(
            WeightedRange(start, stop, weight)
            for start, stop, weight in zip(bounds, bounds[1:], weights, strict=False)
            if stop > start
        )
        self._starts = self.starts()

    def starts(self, shifts: Sequence[int] | None = None) -> Indices:
        """Return the first tokens of windows that cover the text, in order.

        ``shifts`` has for each range how many tokens its first window is shorter than
        the others.
        """
        shifts = shifts or [0] * len(self.ranges)
        found = []
        for each, shift in zip(self.ranges, shifts, strict=True):
            inner = np.arange(each.start + self.window - shift, each.stop, self.window)
            found.append(np.concatenate([[each.start], inner]).astype(np.int64))
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._starts)

    def indices(self, numbers: Indices) -> Indices:
        """Return the names of the windows with these numbers, without a shift."""
        return self._starts[numbers]

    def lengths(
        self, start: int = 0, stop: int | None = None
    ) -> tuple[Indices, Indices]:
        """Return source and target lengths of the windows ``start`` to ``stop``."""
        lengths = self._lengths(self._starts[start:stop])
        return np.zeros_like(lengths), lengths

    def sides(self, indices: Indices) -> tuple[Side, Side]:
        """Return empty sources, and the windows that begin at ``indices``."""
        lengths = self._lengths(indices)
        before = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) + np.repeat(indices - before, lengths)
        empty = Side(np.empty(0, np.int64), np.zeros(len(indices), np.int64))
        return empty, Side(self._tokens.values[places], lengths)

    def count_tokens(self, indices: Indices) -> tuple[int, int]:
        """Return the number of source tokens, 0, and of target tokens."""
        return 0, int(self._lengths(indices).sum())

    def release_pages(self) -> None:
        """Return the memory of pages that were read to the system."""
        self._tokens.release_pages()

    def _lengths(self, starts: Indices) -> Indices:
        """Return the length of each window: up to the next one, or the range's end.

        The first window of a range may have been shortened by a shift, which the other
        starts of the same epoch do not tell: it is as long as the others here, and so
        overlaps the second.
        """
        stops = np.array([each.stop for each in self.ranges], dtype=np.int64)
        stop = stops[np.searchsorted(stops, starts, side="right")]
        lengths: Indices = np.minimum(self.window, stop - starts)
        return lengths
