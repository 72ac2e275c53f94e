"""NumPy arrays as the native library reads them: by their addresses."""

from __future__ import annotations

from ctypes import addressof, c_char
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


def address(array: Array) -> int:
    """Return where an array begins, in a quarter of the time of ``ctypes.data``."""
    try:
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # it is read-only, or empty
        return array.ctypes.data
