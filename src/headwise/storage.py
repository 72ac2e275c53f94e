"""Folders and files on disk: written whole or not at all, checked when read.

A folder is written beside its final name, every file synced, a manifest with sizes and
SHA-256 put in last, and the folder renamed. So a folder under its own name is complete,
or was damaged later, and then ``verify`` says which file.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from headwise.errors import ModelError, ResourceError, UsageError

MANIFEST = "manifest.json"
FORMAT = 1

UNFINISHED = ".unfinished"
REPLACED = ".replaced"


@contextmanager
def new_folder(
    final: Path, *, describe: dict[str, Any] | None = None
) -> Iterator[Path]:
    """Give a folder to fill; when the block ends well it stands at ``final``, whole.

    An older folder of ours is replaced, and goes only after the new one is complete;
    a folder with anything else in it is refused. When the block raises, nothing at
    ``final`` has changed. ``describe`` goes into the manifest. A full disk or a
    missing permission is a ``ResourceError``.
    """
    place = final.resolve()  # through a link, to the disk that the user chose
    try:
        _refuse_to_replace_what_is_not_ours(final)
        place.parent.mkdir(parents=True, exist_ok=True)
        _sweep(place)
        draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}{UNFINISHED}")
        draft.mkdir()
        in_use = _locked(draft)
    except OSError as error:
        raise resource_error(error, final) from error
    try:
        yield draft
        _write_manifest(draft, describe or {})
        _sync_tree(draft)
        _replace(draft, place)
    except Exception as error:
        refusal = _refusal(error, draft, place)
        if refusal is None:
            raise
        raise resource_error(refusal, final) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if in_use is not None:
            os.close(in_use)


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
        try:
            same = (path.stat().st_size, sha256(path)) == (
                facts["bytes"],
                facts["sha256"],
            )
        except OSError as error:
            raise ModelError(
                f"{path} cannot be read: {error.strerror or error}; a folder is used "
                "only where every file can be checked: see to its permissions"
            ) from None
        if not same:
            raise ModelError(
                f"{path} is not what {MANIFEST} says (sizes or SHA-256 differ); the "
                "file was damaged or edited: copy the folder again"
            )
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of ``folder`` without checking the files it lists."""
    if not folder.is_dir():
        raise ModelError(
            f"{folder} is not a folder: see that the path is right and leads to a "
            f"folder with a {MANIFEST}"
        )
    if not (folder / MANIFEST).is_file():
        raise ModelError(
            f"{folder} has no {MANIFEST}, so it is not a folder of ours or was copied "
            "in part: copy it again, or name the folder inside it"
        )
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise ModelError(f"{folder / MANIFEST} is not a manifest of ours")
    if manifest["format"] != FORMAT:
        raise ModelError(
            f"{folder} has format {manifest['format']!r}; this version reads "
            f"format {FORMAT}: use a newer headwise"
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(map(_is_listing, files, files.values())):
        raise ModelError(
            f"{folder / MANIFEST} lists files in a way that we never write; it was "
            "edited or is not ours: copy the folder again"
        )
    return manifest


def _is_listing(name: str, facts: object) -> bool:
    """Tell whether a line of a manifest names a file inside the folder, with facts."""
    inside = PurePosixPath(name)
    return (
        bool(name)
        and not inside.is_absolute()
        and ".." not in inside.parts
        and "\\" not in name
        and "\0" not in name
        and isinstance(facts, dict)
        and facts.keys() >= {"bytes", "sha256"}
    )


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all (UTF-8, line ends as they stand in ``text``)."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
        try:
            with draft.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            _sync(path.parent)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise resource_error(error, path) from error


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON, whole or not at all."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if any("\ud800" <= character <= "\udfff" for character in text):
        # A file name in another encoding; only JSON's escapes can carry it.
        text = json.dumps(value, indent=2)
    write_text(path, text + "\n")


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
        errno.EPERM: "choose a folder you may write to",
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
        if path.is_file() and path != folder / MANIFEST
    }
    write_json(folder / MANIFEST, {**describe, "format": FORMAT, "files": files})


def _sync_tree(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        _sync(path)


def _sync(path: Path) -> None:
    """Have the disk hold ``path``, a file or a folder, before we go on."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
        # Some network disks cannot sync a folder; they order renames themselves.
    finally:
        os.close(handle)


def _replace(draft: Path, final: Path) -> None:
    """Put ``draft`` at ``final``; what stood there is gone, or stands at ``draft``.

    Where the system can swap two names, ``final`` is never missing. Elsewhere it is for
    a moment, and whoever is killed just then finds the older one beside it.
    """
    if not final.exists():
        draft.rename(final)
    elif not _swapped(draft, final):
        aside = draft.with_suffix(REPLACED)
        final.rename(aside)
        try:
            draft.rename(final)
        except OSError:
            aside.rename(final)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    _sync(final.parent)


def _swapped(one: Path, other: Path) -> bool:
    """Swap two names in one step with Linux's renameat2; False where it cannot be."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    if swap is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    names = os.fsencode(one), os.fsencode(other)
    return bool(swap(here, names[0], here, names[1], exchange) == 0)


def _refuse_to_replace_what_is_not_ours(final: Path) -> None:
    if not final.exists() or (final.is_dir() and not any(final.iterdir())):
        return
    try:
        read_manifest(final)
    except ModelError:
        raise UsageError(
            f"{final} holds something else already, which would be lost; choose a "
            "folder that is new, empty or written by the same command"
        ) from None


def _sweep(final: Path) -> None:
    """Clear away what writers of ``final`` left behind that were killed."""
    ours = re.compile(
        rf"\.{re.escape(final.name)}\.[0-9a-f]{{8}}({UNFINISHED}|{REPLACED})"
    )
    for left in [each for each in final.parent.iterdir() if ours.fullmatch(each.name)]:
        if left.suffix == REPLACED and not final.exists():
            left.rename(final)
            continue
        handle = _locked(left)
        if handle is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(handle)


def _locked(folder: Path) -> int | None:
    """Hold ``folder`` as in use while this process lives; None if that cannot be."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _refusal(error: Exception, draft: Path, final: Path) -> OSError | None:
    """Return what the system refused of the folder being written, if that was it.

    An input that cannot be read or a closed pipe is no fault of the folder.
    safetensors wraps the system's error in one of its own and keeps only the number.
    """
    if isinstance(error, ResourceError) and isinstance(error.__cause__, OSError):
        return _refusal(error.__cause__, draft, final)
    if isinstance(error, OSError):
        if isinstance(error, ConnectionError | TimeoutError):
            return None
        if isinstance(error.filename, str | bytes | os.PathLike):
            named = Path(os.fsdecode(error.filename))
            ours = named in (final, final.parent) or named.is_relative_to(draft)
            return error if ours else None
        return error
    number = re.search(r"\(os error (\d+)\)", str(error))
    if number and type(error).__module__.startswith("safetensors"):
        return OSError(int(number[1]), os.strerror(int(number[1])))
    return None
