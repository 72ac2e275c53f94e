"""Manifests: the kind of a folder, and its files with sizes and SHA-256.

Since format 2 a manifest has a SHA-256 of itself, so that changes in it are detected
too. Format 1 remains readable.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from headwise.errors import ModelError
from headwise.storage.disk import restore_replaced
from headwise.storage.files import read_json, sha256, write_json

MANIFEST = "manifest.json"
FORMAT = 2


class NewerFormat(ModelError):  # noqa: N818 - nothing is wrong with the folder
    """The folder was written by a newer version."""


def write_manifest(folder: Path, describe: dict[str, Any]) -> None:
    """Write the manifest of ``folder``, with the entries of ``describe``."""
    files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": sha256(path),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / MANIFEST
    }
    manifest = {**describe, "format": FORMAT, "files": files}
    write_json(folder / MANIFEST, {**manifest, "sha256": manifest_sha256(manifest)})


def manifest_sha256(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest without its own: sorted keys, no white space."""
    rest = {name: value for name, value in manifest.items() if name != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def verify(folder: Path) -> dict[str, Any]:
    """Verify every file of ``folder`` against its manifest; return the manifest.

    Raises ``ModelError`` for the first file that is missing, truncated or changed.
    """
    manifest = read_manifest(folder)
    for damage in damaged_files(folder, manifest):
        raise ModelError(damage)
    return manifest


def damaged_files(folder: Path, manifest: dict[str, Any]) -> Iterator[str]:
    """Yield a message for each file of ``folder`` that does not match ``manifest``.

    Files are read in full, to detect flipped bits.
    """
    for name, facts in manifest["files"].items():
        path = folder / name
        try:
            if not path.is_file():
                yield (
                    f"{path} is missing, but listed in {MANIFEST}; the folder is "
                    "incomplete or was changed: copy it again"
                )
                continue
            size = path.stat().st_size
            same = size == facts["bytes"] and sha256(path) == facts["sha256"]
        except OSError as error:
            yield (
                f"{path} cannot be read: {error.strerror or error}; every file must be "
                "readable: check its permissions"
            )
            continue
        if not same:
            yield (
                f"{path} does not match {MANIFEST} (size or SHA-256 differ); the file "
                "was damaged or edited: copy the folder again"
            )


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of ``folder`` without checking the files it lists."""
    if not folder.exists() and folder.parent.is_dir():
        with suppress(OSError):  # the disk may be read-only
            restore_replaced(folder)
    if not folder.is_dir():
        raise ModelError(
            f"{folder} is not a folder: give the path of a folder with a {MANIFEST}"
        )
    if not os.access(folder, os.R_OK | os.X_OK):
        raise ModelError(
            f"{folder} cannot be read: check the permissions of the folder"
        )
    if not (folder / MANIFEST).is_file():
        raise ModelError(
            f"{folder} has no {MANIFEST}, so it was not written by headwise or is "
            "incomplete: copy it again, or name the folder inside it"
        )
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise ModelError(
            f"{folder / MANIFEST} is not a manifest: it has no format; copy the folder "
            "again"
        )
    if manifest["format"] != 1 and manifest.get("sha256") != manifest_sha256(manifest):
        raise ModelError(
            f"{folder / MANIFEST} does not match the SHA-256 in it; it was damaged or "
            "edited: copy the folder again"
        )
    if manifest["format"] not in (1, FORMAT):
        raise NewerFormat(
            f"{folder} has format {manifest['format']!r}; this version reads formats "
            f"up to {FORMAT}: use a newer headwise"
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(map(_is_listing, files, files.values())):
        raise ModelError(
            f"{folder / MANIFEST} has an invalid list of files; it was edited or not "
            "written by headwise: copy the folder again"
        )
    return manifest


def _is_listing(name: str, facts: object) -> bool:
    """Return whether an entry is a file inside the folder, with size and SHA-256."""
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
