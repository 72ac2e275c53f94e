"""Pictures of a training or validation set on disk, with their labels or captions.

A source token is a patch: budgets of batches, counts and lengths are in patches, not in
pixels.

Letters used for sizes: N pictures, S patches of each, P values of a patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwise.data.example_stores import Side, WeightedRange, ragged_rows
from headwise.data.npy_files import MappedNpyFile
from headwise.errors import DataError


class PictureStore:
    """Memory-mapped pictures of one size, each with the tokens of its target.

    ``pixels`` is a file of the values [N*S*P] of all patches, ``tokens`` one of all
    targets, ``offsets`` [N+1] where each begins. Raises ``DataError`` if they do not
    fit each other, or the sizes. ``ends`` says what END is to follow.
    """

    def __init__(
        self,
        pixels: Path,
        tokens: Path,
        offsets: Path,
        ranges: Sequence[WeightedRange] | None = None,
        *,
        num_patches: int,
        patch_values: int,
        ends: tuple[bool, bool],
    ) -> None:
        self.ends = ends
        self._pixels = MappedNpyFile(pixels)
        self._tokens = MappedNpyFile(tokens)
        self._offsets = MappedNpyFile(offsets)
        self._num_patches = num_patches
        self._shape = (len(self._offsets.values) - 1, num_patches, patch_values)
        self.ranges: Sequence[WeightedRange] = tuple(
            ranges or [WeightedRange(0, len(self), 1.0)]
        )
        if self._pixels.values.dtype != np.uint8 or (
            len(self._pixels.values) != int(np.prod(self._shape, dtype=object))
            or self._offsets.values[-1:].tolist() != [len(self._tokens.values)]
            or self.ranges[-1].stop != len(self)
        ):
            raise DataError(
                f"{pixels} does not fit {tokens}, {offsets.name} or prepared.json; "
                "prepare the corpus again"
            )

    def __len__(self) -> int:
        return self._shape[0]

    def indices(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return ``numbers``: the index of a picture is its number."""
        return numbers

    def sides(self, indices: NDArray[np.int64]) -> tuple[Side, Side]:
        """Return the patches [.. P] and the targets of some pictures."""
        count, (_, _, patch_values) = len(indices), self._shape
        pictures = self._pixels.values.reshape(self._shape)[indices]
        return (
            Side(pictures.reshape(-1, patch_values), self._lengths(count)),
            ragged_rows(self._tokens.values, self._offsets.values, indices),
        )

    def lengths(
        self, start: int = 0, stop: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the patches of each picture, S, and the tokens of its target."""
        stop = len(self) if stop is None else stop
        targets = np.diff(self._offsets.values[start : stop + 1]).astype(np.int64)
        return self._lengths(stop - start), targets

    def count_tokens(self, indices: NDArray[np.int64]) -> tuple[int, int]:
        """Return the number of patches and of target tokens, END included."""
        starts, stops = (self._offsets.values[indices + i] for i in (0, 1))
        targets = int((stops - starts).sum()) + len(indices) * self.ends[1]
        return len(indices) * self._num_patches, targets

    def release_pages(self) -> None:
        """Return the memory of pages that were read to the system."""
        self._pixels.release_pages()
        self._tokens.release_pages()
        self._offsets.release_pages()

    def _lengths(self, count: int) -> NDArray[np.int64]:
        return np.full(count, self._num_patches, np.int64)
