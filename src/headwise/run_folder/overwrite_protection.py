"""Protect other files: a run may use a new or empty folder, or a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headwise import storage
from headwise.errors import ModelError, UsageError
from headwise.run_folder.lock import LOCK, locked
from headwise.run_folder.paths import PREPARED, RECIPE, has_checkpoints


@contextmanager
def lock_run_folder(folder: Path) -> Iterator[None]:
    """Lock ``folder`` for a run; raise ``UsageError`` if it contains anything else."""
    check_no_foreign_files(folder)
    with locked(folder):
        yield


def check_no_foreign_files(folder: Path) -> None:
    """Raise ``UsageError`` unless ``folder`` is new, empty, or a run folder.

    A run folder has a lock and a recipe, or checkpoints (a copy may lack the lock). A
    run that was stopped before its recipe was written has little but its lock, which
    alone proves nothing: other tools have such a file too. A prepared corpus may be
    there before its run.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; choose a new folder or a run folder")
    if has_checkpoints(folder) or not folder.is_dir():
        return
    has_lock = _is_our_lock(folder / LOCK)
    if has_lock and (folder / RECIPE).is_file():
        return
    others = sorted(
        each.name
        for each in folder.iterdir()
        if not _is_expected(each, has_lock=has_lock)
    )
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise UsageError(
            f"{folder} is not a run folder: it contains {others[0]}{more}, which a run "
            "might overwrite; choose a folder that is new, empty or a run folder"
        )


def _is_expected(path: Path, *, has_lock: bool) -> bool:
    """Return whether a run folder without a recipe may contain ``path``.

    With a lock, that includes hidden temporary folders, and the corpus of
    ``headwise demo``.
    """
    if path.name == PREPARED and not has_lock:
        return _is_ours(path)
    return has_lock and (path.name in (PREPARED, "corpus") or path.name.startswith("."))


def _is_our_lock(path: Path) -> bool:
    return path.is_file() and not path.stat().st_size


def _is_ours(folder: Path) -> bool:
    with suppress(ModelError):
        return bool(storage.read_manifest(folder).get("kind"))
    return False
