"""Read files of archives: tar, zip and gzip, without extracting what else they hold.

No path of an archive is ever used as a path on disk: callers name the members that they
want, and the files that they are written to. Links, devices and folders are no members.
"""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from headwise.errors import DataError

CHUNK = 1 << 20

MAX_EXPANSION = 100
"""Bytes that a byte of an archive may become; text becomes 3 to 10."""

FREE_EXPANSION = 1 << 26
"""Bytes that any archive may become, however small it is."""


def read_members(archive: Path, members: Mapping[str, Path]) -> None:
    """Write members of an archive to files: name in the archive -> file to write.

    A member that is gzipped is written as what it contains, unless the file is named
    ``.gz`` too. Raises ``DataError`` for a damaged archive, a member that is missing or
    no regular file, and an archive that expands to more than text can.
    """
    limit = archive.stat().st_size * MAX_EXPANSION + FREE_EXPANSION
    try:
        if zipfile.is_zipfile(archive):
            found = _read_zip(archive, members, limit)
        else:
            found = _read_tar(archive, members, limit)
    except (
        *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile),
        *(EOFError, zlib.error, NotImplementedError),
    ) as error:
        raise DataError(
            f"{archive} is damaged: {error}; delete it and download it again"
        ) from None
    missing = [name for name in members if name not in found]
    if missing:
        raise DataError(
            f"{archive} has no {', '.join(missing)}; it is another file than the one "
            "that was published under this name"
        )


def gunzip(path: Path, to: Path) -> None:
    """Write the content of a gzip file; raise ``DataError`` if it is damaged."""
    limit = path.stat().st_size * MAX_EXPANSION + FREE_EXPANSION
    try:
        with gzip.open(path) as source, to.open("wb") as target:
            _copy(source, target, limit, path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} is damaged: {error}; delete it and download it again"
        ) from None


def _read_tar(archive: Path, members: Mapping[str, Path], limit: int) -> set[str]:
    """Read a tar file front to back, once, since seeking in gzip is reading anew."""
    found: set[str] = set()
    with tarfile.open(archive, mode="r|*") as tar:
        for info in tar:
            name = info.name.removeprefix("./")
            if name not in members or name in found:
                continue
            source = tar.extractfile(info) if info.isreg() else None
            if source is None:
                raise DataError(f"{archive}: {name} is no regular file, but a link")
            _write(source, members[name], name, limit, archive)
            found.add(name)
    return found


def _read_zip(archive: Path, members: Mapping[str, Path], limit: int) -> set[str]:
    with zipfile.ZipFile(archive) as opened:
        present = set(opened.namelist())
        found = present & set(members)
        for name in found:
            with opened.open(name) as source:
                _write(source, members[name], name, limit, archive)
    return found


def _write(source: IO[bytes], to: Path, name: str, limit: int, archive: Path) -> None:
    with to.open("wb") as target:
        if name.endswith(".gz") and to.suffix != ".gz":
            with gzip.GzipFile(fileobj=source) as inner:
                _copy(inner, target, limit, archive)
        else:
            _copy(source, target, limit, archive)


def _copy(
    source: IO[bytes] | gzip.GzipFile, target: IO[bytes], limit: int, archive: Path
) -> None:
    written = 0
    while chunk := source.read(CHUNK):
        written += len(chunk)
        if written > limit:
            raise DataError(
                f"{archive} expands to more than {limit:,} bytes, which text does not; "
                "it is another file than the one that was published"
            )
        target.write(chunk)
