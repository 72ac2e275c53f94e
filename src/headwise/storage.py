"""Folders and files on disk: written whole or not at all, checked when read.

A folder is written beside its final name, every file synced, a manifest with sizes and
SHA-256 put in last, and the folder renamed. So a folder under its own name is complete,
or was damaged later, and then ``verify`` says which file.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.errors import ModelError, ResourceError

MANIFEST = "manifest.json"
FORMAT = 1


@contextmanager
def new_folder(
    final: Path, *, describe: dict[str, Any] | None = None
) -> Iterator[Path]:
    """Give a folder to fill; when the block ends well it stands at ``final``, whole.

    An older folder of that name is replaced, and goes only after the new one is
    complete. When the block raises, nothing at ``final`` has changed. ``describe``
    goes into the manifest. A full disk or a missing permission is a ``ResourceError``.
    """
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        # mkdtemp makes private folders; a model folder is meant to be read by others.
        draft = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
        draft.chmod(0o777 & ~_umask())
    except OSError as error:
        raise resource_error(error, final) from error
    try:
        yield draft
        _write_manifest(draft, describe or {})
        _sync_tree(draft)
        _replace(draft, final)
    except OSError as error:
        raise resource_error(error, final) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def verify(folder: Path) -> dict[str, Any]:
    """Check every file of ``folder`` against its manifest and return the manifest.

    Raises ``ModelError`` naming the first file that is missing, cut or changed.
    """
    manifest = read_manifest(folder)
    for name, facts in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise ModelError(
                f"{path} is missing, though {MANIFEST} lists it; the folder was "
                "copied in part or changed: copy it again"
            )
        if path.stat().st_size != facts["bytes"] or sha256(path) != facts["sha256"]:
            raise ModelError(
                f"{path} is not what {MANIFEST} says (sizes or SHA-256 differ); the "
                "file was damaged or edited: copy the folder again"
            )
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of ``folder`` without checking the files it lists."""
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder")
    if not (folder / MANIFEST).is_file():
        raise ModelError(f"{folder} has no {MANIFEST}, so it was not written whole")
    manifest = read_json(folder / MANIFEST)
    names = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(names, dict) or any(
        Path(name).is_absolute() or ".." in Path(name).parts for name in names
    ):
        raise ModelError(f"{folder / MANIFEST} is not a manifest of ours")
    if manifest.get("format") != FORMAT:
        raise ModelError(
            f"{folder} has format {manifest.get('format')!r}; this version reads "
            f"format {FORMAT}: use a newer headwise"
        )
    return manifest


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all (UTF-8, line ends as they stand in ``text``)."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with draft.open("w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise resource_error(error, path) from error


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; a broken or missing one is a ``ModelError``."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}") from None


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resource_error(error: OSError, path: Path) -> ResourceError:
    """Say what the operating system refused, and what would help."""
    advice = {
        errno.ENOSPC: "free some space or choose a folder on another disk",
        errno.EDQUOT: "free some space or choose a folder on another disk",
        errno.EACCES: "choose a folder you may write to",
        errno.EROFS: "choose a folder you may write to",
    }.get(error.errno or 0, "see to the disk, or choose another folder")
    return ResourceError(
        f"{path} cannot be written: {error.strerror or error}; what stood there "
        f"before is unchanged: {advice}"
    )


def _write_manifest(folder: Path, describe: dict[str, Any]) -> None:
    files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": sha256(path),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    write_json(folder / MANIFEST, {"format": FORMAT, **describe, "files": files})


def _sync_tree(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _replace(draft: Path, final: Path) -> None:
    """Put ``draft`` at ``final``; an older folder is moved aside, then deleted."""
    if final.exists():
        aside = Path(tempfile.mkdtemp(prefix=f".{final.name}.old.", dir=final.parent))
        final.rename(aside / final.name)
        draft.rename(final)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        draft.rename(final)
    handle = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
