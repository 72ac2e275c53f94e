"""The format of CTranslate2's ``model.bin``, version 6, as its converters write it.

All numbers are little-endian; a text is its length + 1 in two bytes, the text in UTF-8,
and a zero byte.

    4 bytes   version of the file                        6
    text      name of the specification                  TransformerSpec
    4 bytes   revision of the specification              7
    4 bytes   number of variables, then for each, in the order of their names:
                  text      name
                  1 byte    axes, then 4 bytes for the size of each
                  1 byte    dtype: its index in DTYPES
                  4 bytes   bytes that follow, and these
    4 bytes   number of aliases, then for each: its name, the name of the variable
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.errors import ModelError
from headwise.storage import write_pieces

VERSION = 6
SPECIFICATION = "TransformerSpec"
REVISION = 7
DTYPES = ("float32", "int8", "int16", "int32", "float16")
MAX_BYTES = 2**32 - 1

Array = NDArray[Any]
Arrays = Mapping[str, Array]


def write_model_file(path: Path, arrays: Arrays, aliases: Mapping[str, str]) -> None:
    """Write ``model.bin``; an alias is another name for one of ``arrays``."""
    write_pieces(path, _pieces(arrays, aliases))


def alias_duplicates(arrays: Arrays) -> tuple[dict[str, Array], dict[str, str]]:
    """Return each array once, under its first name, and aliases for its other names."""
    kept: dict[str, Array] = {}
    aliases = {}
    first: dict[int, str] = {}
    for name in sorted(arrays):
        array = arrays[name]
        original = first.setdefault(id(array), name)
        if original == name:
            kept[name] = array
        else:
            aliases[name] = original
    return kept, aliases


def quantize_int8(matrix: Array) -> tuple[Array, Array]:
    """Quantise a matrix to int8; return it with one scale per row.

    The largest magnitude of a row becomes 127; a row of zeros has scale 1.
    """
    largest = np.abs(matrix).max(axis=1)
    largest[largest == 0] = 127.0
    # The scale of a row of tiny values must not be infinite.
    largest = np.maximum(largest, np.float32(127) / np.finfo(np.float32).max)
    scales = 127.0 / largest
    return np.rint(matrix * scales[:, None]).astype(np.int8), scales


def _pieces(arrays: Arrays, aliases: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    yield struct.pack("<I", VERSION) + _text(SPECIFICATION)
    yield struct.pack("<II", REVISION, len(arrays))
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name]).reshape(arrays[name].shape)
        if array.nbytes > MAX_BYTES:
            raise ModelError(
                f"{name} has {array.nbytes:,} bytes, but CTranslate2's files hold "
                f"at most {MAX_BYTES:,} per matrix; use a smaller vocabulary, or "
                "--quantization float16 or int8"
            )
        yield _text(name) + struct.pack("<B", array.ndim)
        yield struct.pack(f"<{array.ndim}I", *array.shape)
        yield struct.pack("<BI", DTYPES.index(array.dtype.name), array.nbytes)
        yield array.reshape(-1).view(np.uint8).data
    yield struct.pack("<I", len(aliases))
    for alias in sorted(aliases):
        yield _text(alias) + _text(aliases[alias])


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<H", len(encoded) + 1) + encoded + b"\0"
