"""What the disk holds for good: synced, under names that change in one step.

A name is on the disk once the folder that holds it was synced, and a file's content
once the file was; until then a power cut may take either, in any order.
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
    """Have the disk hold ``path``, a file or a folder, before we go on."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync stops short of the disk
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        if hasattr(os, "posix_fadvise"):  # so that reading back asks the disk
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
        # Some network disks cannot sync a folder; they order renames themselves.
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, where missing; the disk holds their names."""
    if not path.is_dir():
        if path.parent != path:
            make_folder(path.parent)
        path.mkdir(exist_ok=True)
    with suppress(PermissionError):  # a folder of others, where we may not look
        sync(path.parent)  # whoever made ours may have been killed before that


def temporary_path(path: Path) -> Path:
    """Return a hidden name beside ``path``; ``remove_leftovers`` knows whose it is."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")


def replace_atomically(draft: Path, final: Path) -> None:
    """Put ``draft`` at ``final`` for good; what stood there goes, or is now ``draft``.

    Where the system can swap two names, ``final`` is never missing. Elsewhere a folder
    is for a moment, and whoever is killed just then finds the older one beside it:
    ``restore_replaced`` mends that. When this raises, ``final`` is as it was.
    """
    undo = _rename(draft, final)
    try:
        sync(final.parent)
    except OSError:
        undo()
        raise
    # Not before: a power cut may take the renames and leave what was deleted after.
    shutil.rmtree(_aside(draft), ignore_errors=True)


def _rename(draft: Path, final: Path) -> Callable[[], object]:
    """Rename ``draft`` to ``final``; return what takes that back."""
    if not os.path.lexists(final):
        draft.rename(final)
        return lambda: final.rename(draft)
    if swap_names(draft, final):
        return lambda: swap_names(draft, final)
    if not final.is_dir():
        draft.replace(final)
        return lambda: None

    aside = _aside(draft)

    def take_back() -> None:
        if not draft.exists():
            final.rename(draft)
        aside.rename(final)

    final.rename(aside)
    try:
        draft.rename(final)
    except OSError:
        take_back()
        raise
    return take_back


def swap_names(one: Path, other: Path) -> bool:
    """Swap two names in one step with Linux's renameat2; False where it cannot be."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    if swap is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    names = os.fsencode(one), os.fsencode(other)
    return bool(swap(here, names[0], here, names[1], exchange) == 0)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Clear away what writers in ``folder`` left behind that were killed.

    With ``name``, only what was to stand under that name.
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
    """Mend ``final`` where its writer was killed between two renames.

    What stood there before lies beside it. A writer at work is left alone.
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
    """Mark ``path`` as in use while this process lives; None if that cannot be."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def delete_temporary(path: Path) -> None:
    """Delete a draft, as far as that can be done; ``remove_leftovers`` takes the rest."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def resource_error(error: OSError, path: Path) -> ResourceError:
    """Say what the operating system refused, and what would help."""
    advice = {
        errno.ENOSPC: "free some space or choose a folder on another disk",
        errno.EDQUOT: "free some space or choose a folder on another disk",
        errno.EACCES: "choose a folder you may write to",
        errno.EPERM: "choose a folder you may write to",
        errno.EROFS: "choose a folder you may write to",
    }.get(error.errno or 0, "see to the disk, or choose another folder")
    return ResourceError(
        f"{path} cannot be written: {error.strerror or error}; what stood there "
        f"before is unchanged: {advice}"
    )


def _aside(draft: Path) -> Path:
    return draft.with_suffix(REPLACED)


def _leftovers(folder: Path, name: str | None) -> list[tuple[Path, str]]:
    """Return the hidden names in ``folder`` that are ours, each with its owner."""
    owner = r".+" if name is None else re.escape(name)
    ours = re.compile(rf"\.({owner})\.[0-9a-f]{{8}}({UNFINISHED}|{REPLACED})")
    found = [(each, ours.fullmatch(each.name)) for each in folder.iterdir()]
    return [(path, match[1]) for path, match in found if match]
