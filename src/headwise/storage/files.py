"""Single files: atomic text and JSON, binary files, SHA-256."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headwise.errors import ModelError
from headwise.storage import disk


def write_text(path: Path, text: str) -> None:
    """Write a file atomically (UTF-8, line ends unchanged)."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    try:
        if path.is_dir():  # swapping names would succeed
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        disk.make_folder(path.parent)
        disk.remove_leftovers(path.parent, path.name)
        draft = disk.temporary_path(path)
        in_use = None
        try:
            with draft.open("xb") as file:
                in_use = disk.lock_while_used(draft)
                file.write(content)
            disk.sync(draft)
            disk.replace_atomically(draft, path)
        finally:
            disk.delete_temporary(draft)
            if in_use is not None:
                os.close(in_use)
    except OSError as error:
        raise disk.resource_error(error, path) from error


def check_writable(path: Path) -> None:
    """Raise ``ResourceError`` unless a file can be written at ``path`` now.

    Writes one byte beside it, as a full disk accepts an empty file.
    """
    draft = disk.temporary_path(path)
    try:
        try:
            draft.write_bytes(b"\n")
            disk.sync(draft)
        finally:
            disk.delete_temporary(draft)
    except OSError as error:
        raise disk.resource_error(error, path) from error


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON, atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if any("\ud800" <= character <= "\udfff" for character in text):
        # A file name in another encoding needs JSON escapes.
        text = json.dumps(value, indent=2)
    write_text(path, text + "\n")


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a binary file in pieces, inside a folder that is not final yet."""
    with path.open("wb", buffering=0) as file:
        for piece in pieces:
            rest = memoryview(piece)
            while rest:  # a nearly full disk writes a part
                rest = rest[file.write(rest) :]


def read_json(path: Path) -> Any:
    """Read a JSON file; raise ``ModelError`` if it is missing or invalid."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}") from None


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
