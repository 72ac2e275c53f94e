"""Output files that are written at the end of a long command."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headwise.errors import ResourceError
from headwise.storage import write_text


def write_out_file(path: Path, text: str) -> None:
    """Write a file; if that fails, write its text to a temporary file instead.

    Raises ``ResourceError`` that names the temporary file: a disk that filled up
    meanwhile should not cost hours of translation.
    """
    try:
        write_text(path, text)
    except ResourceError as error:
        where = _write_temporary(text, path.suffix)
        raise ResourceError(f"{error}\n{where}") from None


def _write_temporary(text: str, suffix: str) -> str:
    """Write a temporary file; return the sentence that names it, or says why not."""
    try:
        handle, name = tempfile.mkstemp(prefix="headwise-", suffix=suffix)
        try:
            with open(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
        except OSError:
            Path(name).unlink(missing_ok=True)  # a part of it would look like all
            raise
    except OSError as error:
        return (
            "no temporary file can be written either "
            f"({error.strerror or error}); set TMPDIR to another folder"
        )
    return f"the output was saved in {name}"
