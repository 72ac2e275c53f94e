"""The examples of a training or validation set on disk: pairs of rows of tokens.

Windows of a text have the same interface (:mod:`headwise.data.token_stream`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headwise.data.npy_files import MappedNpyFile
from headwise.errors import DataError


@dataclass(frozen=True, slots=True)
class WeightedRange:
    """Consecutive pairs that each epoch takes ``weight`` times."""

    start: int
    stop: int
    weight: float


@dataclass(frozen=True, slots=True)
class Side:
    """Ragged rows of tokens, concatenated."""

    tokens: NDArray[Any]
    """[N], or [N P] if each token is P numbers, as are the patches of pictures."""

    lengths: NDArray[np.int64]


class ExampleStore(Protocol):
    """The examples of a training or validation set: pairs, or windows of a text."""

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether END is to follow each source, and each target."""
        ...

    def __len__(self) -> int: ...

    def indices(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices, by which examples are asked for, of these numbers."""
        ...

    def sides(self, indices: NDArray[np.int64]) -> tuple[Side, Side]:
        """Return the sources and the targets of some examples."""
        ...

    def lengths(
        self, start: int = 0, stop: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return source and target lengths of examples ``start`` to ``stop``."""
        ...

    def count_tokens(self, indices: NDArray[np.int64]) -> tuple[int, int]:
        """Return the number of source and target tokens, END included."""
        ...

    def release_pages(self) -> None:
        """Return the memory of pages that were read to the system."""
        ...


class PairedExampleStore(ExampleStore, Protocol):
    """Examples that are pairs, some of which an epoch takes more often than others."""

    @property
    def ranges(self) -> Sequence[WeightedRange]:
        """Consecutive pairs with their weights; all pairs are in one of them."""
        ...


def ragged_rows(
    tokens: NDArray[Any], offsets: NDArray[Any], rows: NDArray[np.int64]
) -> Side:
    """Return the rows of these numbers; row ``i`` begins at ``offsets[i]``."""
    starts, stops = (offsets[rows + i] for i in (0, 1))
    lengths = (stops - starts).astype(np.int64)
    before = np.cumsum(lengths) - lengths
    indices = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
    return Side(tokens[indices], lengths)


class PairStore:
    """Memory-mapped pairs of token sequences, without START and END.

    ``ends`` says whether END is to follow each source, and each target.
    """

    def __init__(
        self,
        tokens: Path,
        offsets: Path,
        ranges: Sequence[WeightedRange] | None = None,
        *,
        ends: tuple[bool, bool] = (True, True),
    ) -> None:
        self.ends = ends
        self._tokens = MappedNpyFile(tokens)
        self._offsets = MappedNpyFile(offsets)
        self._num_pairs = len(self._offsets.values) // 2
        self.ranges: Sequence[WeightedRange] = tuple(
            ranges or [WeightedRange(0, self._num_pairs, 1.0)]
        )
        if self._offsets.values[-1:].tolist() != [len(self._tokens.values)] or (
            self.ranges[-1].stop != self._num_pairs
        ):
            raise DataError(
                f"{offsets} does not fit {tokens} or prepared.json; prepare the corpus "
                "again"
            )

    def __len__(self) -> int:
        return self._num_pairs

    def indices(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return ``numbers``: a pair's index is its number."""
        return numbers

    def source(self, index: int) -> NDArray[Any]:
        """Return the source tokens of pair ``index``."""
        return self._side(2 * index)

    def target(self, index: int) -> NDArray[Any]:
        """Return the target tokens of pair ``index``."""
        return self._side(2 * index + 1)

    def sides(self, indices: NDArray[np.int64]) -> tuple[Side, Side]:
        """Return the sources and the targets of some pairs."""
        source, target = (self._sides(2 * indices + side) for side in (0, 1))
        return source, target

    def lengths(
        self, start: int = 0, stop: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return source and target lengths of the pairs from ``start`` to ``stop``."""
        stop = len(self) if stop is None else stop
        sides = np.diff(self._offsets.values[2 * start : 2 * stop + 1])
        return sides[0::2], sides[1::2]

    def count_tokens(self, indices: NDArray[np.int64]) -> tuple[int, int]:
        """Return the number of source and target tokens of some pairs, END included."""
        starts, middles, stops = (
            self._offsets.values[2 * indices + i] for i in range(3)
        )
        sources, targets = (middles - starts).sum(), (stops - middles).sum()
        source_end, target_end = (len(indices) * each for each in self.ends)
        return int(sources) + source_end, int(targets) + target_end

    def release_pages(self) -> None:
        """Return the memory of pages that were read to the system."""
        self._tokens.release_pages()
        self._offsets.release_pages()

    def _sides(self, sides: NDArray[np.int64]) -> Side:
        return ragged_rows(self._tokens.values, self._offsets.values, sides)

    def _side(self, side: int) -> NDArray[Any]:
        start, stop = self._offsets.values[side : side + 2]
        return self._tokens.values[start:stop]
