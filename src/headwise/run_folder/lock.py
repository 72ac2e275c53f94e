"""Locks on folders; the system releases a lock when its process ends."""

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
"""Attempts to acquire a lock, as ``is_held`` may hold it for a moment."""

SECONDS_BETWEEN_TRIES = 0.02


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock ``folder``; raise ``UsageError`` if another process has the lock."""
    try:
        make_folder(folder)
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise resource_error(error, folder) from error
    with file:
        if not _acquire(file):
            raise _other_holder(folder)
        yield


@contextmanager
def locked_directly(folder: Path) -> Iterator[None]:
    """Lock a folder that will be replaced, so that a file in it cannot be the lock.

    Raises ``UsageError`` if another process has it. File systems that cannot lock
    folders are not locked.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        acquired = True
        with suppress(OSError):
            acquired = _acquire(handle)
        # The process that had the lock before may have replaced the folder.
        if not (acquired and os.path.samestat(os.fstat(handle), folder.stat())):
            raise _other_holder(folder)
        yield
    finally:
        os.close(handle)


def is_held(folder: Path) -> bool:
    """Return whether a process works in ``folder``, without keeping the lock."""
    try:
        with (folder / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # never locked, or not readable
    return False


def _acquire(file: IO[str] | int) -> bool:
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
