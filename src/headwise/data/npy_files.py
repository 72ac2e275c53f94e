"""Large arrays in ``.npy`` files: appended to while writing, memory-mapped to read.

``numpy.load(path, mmap_mode="r")`` reads them too.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from headwise.errors import DataError


class NpyWriter:
    """Context manager that writes a one-dimensional ``.npy`` file by appending."""

    def __init__(self, path: Path, dtype: type[np.generic]) -> None:
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.size = 0
        self._file: BinaryIO = path.open("wb")
        self._write_header()
        self._header_bytes = self._file.tell()

    def append(self, values: Any) -> None:
        """Append ``values``."""
        piece = np.asarray(values, dtype=self.dtype)
        self._file.write(piece.tobytes())
        self.size += piece.size

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file:
            self._file.seek(0)
            self._write_header()
            # numpy pads the header, so that a longer shape fits.
            assert self._file.tell() == self._header_bytes

    def _write_header(self) -> None:
        facts = {
            "descr": npy.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.size,),
        }
        npy.write_array_header_1_0(self._file, facts)


class MappedNpyFile:
    """A memory-mapped one-dimensional ``.npy`` file.

    Pages that were read stay in memory until ``release_pages``. Raises ``DataError``
    for a damaged file.
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                shape, dtype = _read_header(file)
                start = file.tell()
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if len(self._map) != start + shape[0] * dtype.itemsize:
                raise ValueError(
                    f"{len(self._map)} bytes, but its header says "
                    f"{shape[0]} items of {dtype.itemsize}"
                )
        except (OSError, ValueError) as error:
            raise DataError(
                f"{path} cannot be read as an array: {error}; it is damaged or "
                "incomplete: prepare the corpus again"
            ) from None
        self.values: NDArray[Any] = np.frombuffer(self._map, dtype, offset=start)

    def release_pages(self) -> None:
        """Return the pages that were read to the system; they stay readable."""
        if hasattr(mmap, "MADV_DONTNEED"):  # not on every system
            self._map.madvise(mmap.MADV_DONTNEED)


def _read_header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if npy.read_magic(file) != (1, 0):
        raise ValueError("unsupported .npy version")
    shape, _, dtype = npy.read_array_header_1_0(file)
    if len(shape) != 1 or dtype.kind not in "iu":
        raise ValueError(f"shape {shape} of {dtype}, not one axis of integers")
    return shape, dtype
