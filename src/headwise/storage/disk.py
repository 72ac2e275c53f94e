"""Durable writes: fsync, atomic renames, and leftovers of killed processes.

A name is durable once its folder is synced, and the content of a file once the file is;
until then a power cut may lose either, in any order.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from headwise.errors import ResourceError

UNFINISHED = ".unfinished"
REPLACED = ".replaced"


def sync(path: Path) -> None:
    """Flush ``path``, a file or a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync does not flush the disk cache
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        if hasattr(os, "posix_fadvise"):  # so that reading back reads from disk
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
        # Some network file systems cannot sync a folder; they order renames themselves.
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, durably."""
    if not path.is_dir():
        if path.parent != path:
            make_folder(path.parent)
        path.mkdir(exist_ok=True)
    with suppress(PermissionError):  # a parent that we may not read
        sync(path.parent)  # its creator may have been killed before that


def temporary_path(path: Path) -> Path:
    """Return a hidden temporary name beside ``path``."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")


def replace_atomically(draft: Path, final: Path) -> None:
    """Rename ``draft`` to ``final`` durably; what was there is deleted, or ``draft``.

    If the system can swap two names, ``final`` always exists. Otherwise a folder is
    missing for a moment; if the process is killed just then, ``restore_replaced``
    renames the old one back. If this raises, ``final`` is unchanged.
    """
    undo = _rename(draft, final)
    try:
        sync(final.parent)
    except OSError:
        undo()
        raise
    # Only now: a power cut could undo the renames, but not the deletion.
    shutil.rmtree(_aside(draft), ignore_errors=True)


def _rename(draft: Path, final: Path) -> Callable[[], object]:
    """Rename ``draft`` to ``final``; return a function that undoes it."""
    if not os.path.lexists(final):
        draft.rename(final)
        return lambda: final.rename(draft)
    if swap_names(draft, final):
        return lambda: swap_names(draft, final)
    if not final.is_dir():
        draft.replace(final)
        return lambda: None

    aside = _aside(draft)

    def undo() -> None:
        if not draft.exists():
            final.rename(draft)
        aside.rename(final)

    final.rename(aside)
    try:
        draft.rename(final)
    except OSError:
        undo()
        raise
    return undo


def swap_names(one: Path, other: Path) -> bool:
    """Swap two names atomically with Linux's renameat2; return False if unsupported."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    if swap is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    names = os.fsencode(one), os.fsencode(other)
    return bool(swap(here, names[0], here, names[1], exchange) == 0)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Delete temporary files in ``folder`` that killed processes left behind.

    With ``name``, only those for that final name.
    """
    for left, owner in _leftovers(folder, name):
        restore_replaced(folder / owner)
        if not os.path.lexists(left):
            continue
        handle = lock_while_used(left)
        if handle is not None:
            delete_temporary(left)
            os.close(handle)


def restore_replaced(final: Path) -> None:
    """Rename the old ``final`` back if its writer was killed between two renames.

    Nothing is done while the writer is still running.
    """
    for aside, _ in _leftovers(final.parent, final.name):
        if aside.suffix != REPLACED or os.path.lexists(final):
            continue
        draft = aside.with_suffix(UNFINISHED)
        handle = lock_while_used(draft) if draft.exists() else None
        if handle is None and draft.exists():
            continue
        aside.rename(final)
        sync(final.parent)
        if handle is not None:
            os.close(handle)


def lock_while_used(path: Path) -> int | None:
    """Lock ``path`` for the life of this process; return the handle, or None."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def delete_temporary(path: Path) -> None:
    """Delete a temporary file or folder; ignore errors."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def resource_error(error: OSError, path: Path) -> ResourceError:
    """Return a ``ResourceError`` with the reason and advice."""
    advice = {
        errno.ENOSPC: "free some space or choose a folder on another disk",
        errno.EDQUOT: "free some space or choose a folder on another disk",
        errno.EACCES: "choose a folder you may write to",
        errno.EPERM: "choose a folder you may write to",
        errno.EROFS: "choose a folder you may write to",
    }.get(error.errno or 0, "check the disk, or choose another folder")
    return ResourceError(
        f"{path} cannot be written: {error.strerror or error}; what was there before "
        f"is unchanged: {advice}"
    )


def _aside(draft: Path) -> Path:
    return draft.with_suffix(REPLACED)


def _leftovers(folder: Path, name: str | None) -> list[tuple[Path, str]]:
    """Return the temporary names in ``folder``, each with its final name."""
    owner = r".+" if name is None else re.escape(name)
    ours = re.compile(rf"\.({owner})\.[0-9a-f]{{8}}({UNFINISHED}|{REPLACED})")
    found = [(each, ours.fullmatch(each.name)) for each in folder.iterdir()]
    return [(path, match[1]) for path, match in found if match]
