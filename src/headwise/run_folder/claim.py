"""A folder for a run: ours, or new; never one that holds what is somebody else's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headwise import storage
from headwise.errors import ModelError, UsageError
from headwise.run_folder.lock import LOCK, locked
from headwise.run_folder.paths import PREPARED, RECIPE, has_checkpoints


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Work in ``folder``, alone; refuse one that holds something else than a run."""
    check_claimable(folder)
    with locked(folder):
        yield


def check_claimable(folder: Path) -> None:
    """Raise a ``UsageError`` unless ``folder`` is new, empty, or that of a run.

    A run is known by its lock with its recipe, or by checkpoints: a copy may lack the
    lock. One that was ended before it had a recipe has next to nothing but its lock,
    which alone vouches for nothing else: other tools have such a file too. A corpus
    that was prepared there may wait for its run.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; choose a folder, new or of a run")
    if has_checkpoints(folder) or not folder.is_dir():
        return
    begun = _is_our_lock(folder / LOCK)
    if begun and (folder / RECIPE).is_file():
        return
    others = sorted(
        each.name for each in folder.iterdir() if not _may_be_there(each, begun=begun)
    )
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise UsageError(
            f"{folder} holds no run but {others[0]}{more}, and a run might overwrite "
            "what it finds; choose a folder that is new, empty or of a run"
        )


def _may_be_there(path: Path, *, begun: bool) -> bool:
    """Tell whether a run that has no recipe yet may find this in its folder.

    Where one has ``begun``, that may be drafts of folders, which are hidden, and text
    that ``headwise demo`` made.
    """
    if path.name == PREPARED and not begun:
        return _is_ours(path)
    return begun and (path.name in (PREPARED, "corpus") or path.name.startswith("."))


def _is_our_lock(path: Path) -> bool:
    return path.is_file() and not path.stat().st_size


def _is_ours(folder: Path) -> bool:
    with suppress(ModelError):
        return bool(storage.read_manifest(folder).get("kind"))
    return False
