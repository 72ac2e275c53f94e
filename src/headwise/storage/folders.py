"""Create, replace and delete folders atomically."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from headwise.errors import ModelError, ResourceError, UsageError
from headwise.storage import disk
from headwise.storage.manifests import read_manifest, verify, write_manifest

DAMAGED = "damaged-"


@contextmanager
def new_folder(
    final: Path, *, describe: dict[str, Any] | None = None
) -> Iterator[Path]:
    """Yield a temporary folder to fill, which is renamed to ``final`` at the end.

    An older folder of the same kind is replaced after the new one was read back; any
    other content raises ``UsageError``. If the context raises, ``final`` is unchanged.
    ``describe`` goes into the manifest, with the kind. A full disk, a missing
    permission or data that reads back differently raises ``ResourceError``.
    """
    resolved = final.resolve()  # follow links, to rename on the right file system
    try:
        check_replaceable(final, (describe or {}).get("kind"))
        disk.make_folder(resolved.parent)
        disk.remove_leftovers(resolved.parent, resolved.name)
        draft = disk.temporary_path(resolved)
        draft.mkdir()
        in_use = disk.lock_while_used(draft)
    except OSError as error:
        raise disk.resource_error(error, final) from error
    try:
        yield draft
        write_manifest(draft, describe or {})
        _sync_tree(draft)
        _read_back(draft, final)
        disk.replace_atomically(draft, resolved)
    except Exception as error:
        refusal = _refusal(error, draft, resolved)
        if refusal is None:
            raise
        raise disk.resource_error(refusal, final) from error
    finally:
        disk.delete_temporary(draft)
        if in_use is not None:
            os.close(in_use)


def remove_folder(folder: Path) -> None:
    """Delete a folder atomically, by renaming it; an ``OSError`` changes nothing."""
    gone = disk.temporary_path(folder)
    folder.rename(gone)
    disk.sync(folder.parent)
    shutil.rmtree(gone, ignore_errors=True)


def set_aside(path: Path) -> Path:
    """Rename a damaged file or folder to ``damaged-NAME``; return the new path."""
    names = (f"-{number}" for number in count(2))
    aside = path.with_name(f"{DAMAGED}{path.name}")
    while os.path.lexists(aside):  # never overwrite an older one
        aside = path.with_name(f"{DAMAGED}{path.name}{next(names)}")
    try:
        path.rename(aside)
        disk.sync(path.parent)
    except OSError as error:
        raise disk.resource_error(error, path) from error
    return aside


def set_aside_foreign(path: Path, kind: str | None = None) -> Path | None:
    """Rename what ``new_folder`` would refuse to replace, such as a damaged folder.

    Only for paths inside a run folder, where nothing else can be.
    """
    try:
        check_replaceable(path, kind)
    except UsageError:
        return set_aside(path)
    return None


def _sync_tree(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        disk.sync(path)


def _read_back(draft: Path, final: Path) -> None:
    try:
        verify(draft)
    except ModelError as error:
        raise ResourceError(
            f"{final} was written, but reads back differently ({error}); what was "
            "there before is unchanged: check disk and memory, or choose a folder "
            "on another disk"
        ) from error


def check_replaceable(final: Path, kind: str | None) -> None:
    """Raise ``UsageError`` unless ``final`` is new, empty, or of the same kind."""
    if not final.exists() or (final.is_dir() and not any(final.iterdir())):
        return
    try:
        there = read_manifest(final).get("kind")
    except ModelError:
        there = None
    else:
        if there == kind:
            return
    what = f"a folder of kind {there!r}" if there else "other files"
    raise UsageError(
        f"{final} already contains {what}, which would be lost; choose a folder that "
        "is new, empty or written by the same command"
    )


def _refusal(error: Exception, draft: Path, final: Path) -> OSError | None:
    """Return the system error of the folder being written, if that is the cause.

    Errors of inputs or closed pipes are not. safetensors wraps system errors in its
    own, with only the number in its text.
    """
    if isinstance(error, ResourceError) and isinstance(error.__cause__, OSError):
        return _refusal(error.__cause__, draft, final)
    if isinstance(error, OSError):
        if isinstance(error, ConnectionError | TimeoutError):
            return None
        names = [each for each in (error.filename, error.filename2) if each is not None]
        named = [Path(os.fsdecode(each)) for each in names if not isinstance(each, int)]
        if not named:
            return error
        targets = (final, final.parent)
        ours = any(each in targets or each.is_relative_to(draft) for each in named)
        return error if ours else None
    number = re.search(r"\(os error (\d+)\)", str(error))
    if number and type(error).__module__.startswith("safetensors"):
        return OSError(int(number[1]), os.strerror(int(number[1])))
    return None
