"""Files that are written at the end of a verb, of what took long to make."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headwise.errors import ResourceError
from headwise.storage import write_text


def write_out_file(path: Path, text: str) -> None:
    """Write a file whole; where that cannot be, keep its text in a temporary one.

    Raises ``ResourceError``, which names the temporary file: a disk that has filled up
    since the verb began should not cost what it made.
    """
    try:
        write_text(path, text)
    except ResourceError as error:
        kept = _kept(text, path.suffix)
        raise ResourceError(f"{error}\n{kept}") from None


def _kept(text: str, suffix: str) -> str:
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
            f"nor can {tempfile.gettempdir()} take what was made "
            f"({error.strerror or error}); TMPDIR may name another folder"
        )
    return f"what was made is kept in {file.name}"
