"""A folder for a run: ours, or new; never one that holds what is somebody else's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headwise import storage
from headwise.errors import ModelError, UsageError
from headwise.run_folder.lock import LOCK, locked
from headwise.run_folder.paths import PREPARED, has_checkpoints


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Work in ``folder``, alone; refuse one that holds something else than a run."""
    check_claimable(folder)
    with locked(folder):
        yield


def check_claimable(folder: Path) -> None:
    """Raise a ``UsageError`` unless ``folder`` is new, empty, or that of a run.

    A run is known by its lock, which it has from the first moment, or by checkpoints:
    a copy may lack the lock. A corpus that was prepared there may wait for its run.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; choose a folder, new or of a run")
    if _is_our_lock(folder / LOCK) or has_checkpoints(folder) or not folder.is_dir():
        return
    others = sorted(
        each.name
        for each in folder.iterdir()
        if each.name != PREPARED or not _is_ours(each)
    )
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise UsageError(
            f"{folder} holds no run but {others[0]}{more}, and a run might overwrite "
            "what it finds; choose a folder that is new, empty or of a run"
        )


def _is_our_lock(path: Path) -> bool:
    return path.is_file() and not path.stat().st_size


def _is_ours(folder: Path) -> bool:
    with suppress(ModelError):
        return bool(storage.read_manifest(folder).get("kind"))
    return False
