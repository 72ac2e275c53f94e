"""Read and write safetensors files; writing needs no second copy in memory.

The library's own writer creates files that only their owner can read, and reports a
full disk only by a number in a text. The format: 8 bytes with the length of the header,
the header in JSON, the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file
from torch import Tensor

from headwise.errors import ModelError
from headwise.storage import write_pieces
from headwise.wording import without_surrogates

PIECE_BYTES = 2**24

NAMES = {
    torch.int64: "I64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Dtypes that can be written, and their names in the file.

The widest come first, so that every tensor is aligned.
"""


FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""Dtypes that the weights of a model folder may have; they are used as float32."""


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], *, notes: Mapping[str, str] | None = None
) -> None:
    """Write tensors as safetensors, with ``notes`` as metadata in the header."""
    kinds = list(NAMES)
    ordered = sorted(tensors, key=lambda name: (kinds.index(tensors[name].dtype), name))
    write_pieces(path, _pieces({name: tensors[name] for name in ordered}, notes or {}))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; raise ``ModelError`` if that fails."""
    try:
        if str(path) != without_surrogates(str(path)):
            return load(path.read_bytes())  # load_file opens names in UTF-8 only
        return load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None


def check_dtypes(
    tensors: Mapping[str, Tensor], path: Path, allowed: Sequence[torch.dtype]
) -> None:
    """Raise ``ModelError`` for tensors of any other dtype.

    Integers of a quantised model, for example, are meaningless without their scales.
    """
    wrong = [
        f"{name} is {_name(tensor.dtype)}"
        for name, tensor in tensors.items()
        if tensor.dtype not in allowed
    ]
    if wrong:
        kinds = ", ".join(map(_name, allowed))
        raise ModelError(
            f"{path} has tensors of a dtype that cannot be used: {first_three(wrong)}; "
            f"allowed: {kinds}. Save the original weights as float32, or copy the file "
            "again"
        )


def first_three(problems: Sequence[str]) -> str:
    """Return the first three problems as text, with the number of the others."""
    more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
    return "; ".join(problems[:3]) + more


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _pieces(
    tensors: Mapping[str, Tensor], notes: Mapping[str, str]
) -> Iterator[bytes | memoryview]:
    header = _header(tensors, notes)
    yield len(header).to_bytes(8, "little") + header
    for tensor in tensors.values():
        numbers = tensor.detach().cpu().contiguous().reshape(-1)
        content = numbers.view(torch.uint8).numpy().data
        for start in range(0, len(content), PIECE_BYTES):
            yield content[start : start + PIECE_BYTES]


def _header(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> bytes:
    table: dict[str, object] = {"__metadata__": dict(notes)} if notes else {}
    start = 0
    for name, tensor in tensors.items():
        end = start + tensor.nbytes
        table[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        start = end
    header = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    return header + b" " * (-len(header) % 8)
