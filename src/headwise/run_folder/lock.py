"""One process a folder: a lock that the system lets go of when its holder ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwise.errors import UsageError
from headwise.storage import resource_error

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold ``folder`` for this process; a second holder is a ``UsageError``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise resource_error(error, folder) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another process is working in {folder}; wait for it, or choose "
                "another folder"
            ) from None
        yield
