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
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            newline="",
            prefix="headwise-",
            suffix=suffix,
            delete=False,
        ) as file:
            file.write(text)
    except OSError as error:
        return (
            f"{tempfile.gettempdir()} cannot be written either "
            f"({error.strerror or error}); set TMPDIR to another folder"
        )
    return f"the output was saved in {file.name}"
