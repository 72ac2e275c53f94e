"""One process a folder: a lock that the system lets go of when its holder ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from headwise.errors import UsageError
from headwise.storage import make_folder, resource_error

LOCK = ".lock"

TRIES = 5
"""How often a lock is asked for: ``is_held`` may have it for a moment."""

SECONDS_BETWEEN_TRIES = 0.02


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold ``folder`` for this process; a second holder is a ``UsageError``."""
    try:
        make_folder(folder)
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise resource_error(error, folder) from error
    with file:
        if not _taken(file):
            raise _other_holder(folder)
        yield


@contextmanager
def locked_itself(folder: Path) -> Iterator[None]:
    """Hold a folder that is replaced whole, so that a lock in it would be as well.

    A second holder is a ``UsageError``. Disks that cannot lock a folder let all in.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        is_taken = True
        with suppress(OSError):
            is_taken = _taken(handle)
        # Whoever had it before may have put another folder in its place.
        if not (is_taken and os.path.samestat(os.fstat(handle), folder.stat())):
            raise _other_holder(folder)
        yield
    finally:
        os.close(handle)


def is_held(folder: Path) -> bool:
    """Tell whether a process works in ``folder``, without keeping one from it."""
    try:
        with (folder / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # nobody ever worked there, or not so that we may see it
    return False


def _taken(file: IO[str] | int) -> bool:
    for _ in range(TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(SECONDS_BETWEEN_TRIES)
        else:
            return True
    return False


def _other_holder(folder: Path) -> UsageError:
    return UsageError(
        f"another process is working in {folder}; wait for it, or choose another folder"
    )
