"""Output files that are written at the end of a long command."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headwise.errors import ResourceError
from headwise.storage import write_bytes


def write_out_file(path: Path, content: str | bytes) -> None:
    """Write a file; if that fails, write it to a temporary file instead.

    Raises ``ResourceError`` that names the temporary file: a disk that filled up
    meanwhile should not cost hours of translation.
    """
    try:
        write_bytes(path, _as_bytes(content))
    except ResourceError as error:
        where = _write_temporary(_as_bytes(content), path.suffix)
        raise ResourceError(f"{error}\n{where}") from None


def _as_bytes(content: str | bytes) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else content


def _write_temporary(content: bytes, suffix: str) -> str:
    """Write a temporary file; return the sentence that names it, or says why not."""
    try:
        handle, name = tempfile.mkstemp(prefix="headwise-", suffix=suffix)
        try:
            with open(handle, "wb") as file:
                file.write(content)
        except OSError:
            Path(name).unlink(missing_ok=True)  # a part of it would look like all
            raise
    except OSError as error:
        return (
            "no temporary file can be written either "
            f"({error.strerror or error}); set TMPDIR to another folder"
        )
    return f"the output was saved in {name}"
