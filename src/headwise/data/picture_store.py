"""The labelled pictures of a training or validation set on disk, as patches.

A source token is a patch: budgets of batches, counts and lengths are in patches, not in
pixels.

Letters used for sizes: N pictures, S patches of each, P values of a patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwise.data.example_stores import Side, WeightedRange
from headwise.data.npy_files import MappedNpyFile
from headwise.errors import DataError


class PictureStore:
    """Memory-mapped pictures of one size, each with the token of its label.

    ``pixels`` is a file of the values [N*S*P] of all patches, ``labels`` one of N
    tokens. Raises ``DataError`` if they do not fit each other, or the sizes.
    """

    ends = (False, False)

    def __init__(
        self,
        pixels: Path,
        labels: Path,
        ranges: Sequence[WeightedRange] | None = None,
        *,
        num_patches: int,
        patch_values: int,
    ) -> None:
        self._pixels = MappedNpyFile(pixels)
        self._labels = MappedNpyFile(labels)
        self._num_patches = num_patches
        self._shape = (len(self._labels.values), num_patches, patch_values)
        self.ranges: Sequence[WeightedRange] = tuple(
            ranges or [WeightedRange(0, len(self), 1.0)]
        )
        if self._pixels.values.dtype != np.uint8 or (
            len(self._pixels.values) != int(np.prod(self._shape, dtype=object))
            or self.ranges[-1].stop != len(self)
        ):
            raise DataError(
                f"{pixels} does not fit {labels} or prepared.json; prepare the corpus "
                "again"
            )

    def __len__(self) -> int:
        return self._shape[0]

    def indices(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return ``numbers``: the index of a picture is its number."""
        return numbers

    def sides(self, indices: NDArray[np.int64]) -> tuple[Side, Side]:
        """Return the patches [.. P] and the labels of some pictures."""
        count, (_, _, patch_values) = len(indices), self._shape
        pictures = self._pixels.values.reshape(self._shape)[indices]
        return (
            Side(pictures.reshape(-1, patch_values), self._lengths(count)),
            Side(self._labels.values[indices], np.ones(count, np.int64)),
        )

    def lengths(
        self, start: int = 0, stop: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the patches, and the labels, of each picture: S and 1."""
        count = (len(self) if stop is None else stop) - start
        return self._lengths(count), np.ones(count, np.int64)

    def count_tokens(self, indices: NDArray[np.int64]) -> tuple[int, int]:
        """Return the number of patches and of labels of some pictures."""
        return len(indices) * self._num_patches, len(indices)

    def release_pages(self) -> None:
        """Return the memory of pages that were read to the system."""
        self._pixels.release_pages()
        self._labels.release_pages()

    def _lengths(self, count: int) -> NDArray[np.int64]:
        return np.full(count, self._num_patches, np.int64)
