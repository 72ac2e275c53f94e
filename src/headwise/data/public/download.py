"""Downloads: found in a folder or transferred, and verified by SHA-256 before use.

A file whose SHA-256 nobody states is trusted the first time (trust on first use): its
own is recorded in ``SHA256SUMS``, and later files of that name must equal it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headwise import storage
from headwise.data.public.corpus import Download
from headwise.data.public.transfer import (
    Unavailable,
    part_of,
    size_text,
    state_of,
    transfer,
)
from headwise.errors import DataError, ResourceError, UsageError
from headwise.storage.disk import lock_while_used

Say = Callable[[str], None]

RECORD = "SHA256SUMS"
"""File beside the downloads, in the format of ``sha256sum``."""


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """A file that was verified, or is trusted from now on."""

    download: Download
    path: Path
    sha256: str
    num_bytes: int
    url: str
    """Where it was transferred from; of a file that was there, where it is published.
    """


def fetch(
    download: Download, folder: Path, *, say: Say = lambda _: None
) -> VerifiedFile:
    """Return a file of ``folder``, transferred if it is not there yet.

    Raises ``DataError`` for a file with another SHA-256 than the one stated or
    recorded, and ``ResourceError`` for a network or disk that fails.
    """
    path = folder / download.name
    storage.make_folder(path.parent)
    if path.exists():
        return _verified(download, path, _recorded(folder, download.name), say)
    with _locked(path):
        url, resumed = _transfer_any(download, path, say)
        digest = storage.sha256(part_of(path))
        if download.sha256 not in (None, digest) and resumed:
            say(f"{path.name}: its SHA-256 differs after resuming; starting over")
            part_of(path).unlink()
            url, _ = _transfer_any(download, path, say)
            digest = storage.sha256(part_of(path))
        expected = download.sha256 or _recorded(folder, download.name)
        if expected not in (None, digest):
            part_of(path).unlink()
            raise DataError(_mismatch(download, url, digest, expected))
        storage.sync(part_of(path))
        part_of(path).rename(path)
        state_of(path).unlink(missing_ok=True)
    if expected is None:
        _record(folder, download.name, digest)
        say(
            f"{download.name}: nobody states its SHA-256, so this file is trusted; its "
            f"own, {digest}, is recorded in {folder / RECORD}, and later downloads "
            "must equal it"
        )
    return VerifiedFile(download, path, digest, path.stat().st_size, url)


def find(
    download: Download, folder: Path, *, say: Say = lambda _: None
) -> VerifiedFile:
    """Return the file of a local folder, under its name with or without folder.

    Raises ``UsageError`` if it is not there, ``DataError`` if its SHA-256 differs.
    """
    places = [folder / download.name, folder / Path(download.name).name]
    for path in places:
        if path.is_file():
            return _verified(download, path, _recorded(folder, download.name), say)
    raise UsageError(
        f"--from {folder} has no {places[1].name} (looked for {places[0]} and "
        f"{places[1]}); it is published at {download.urls[0]}"
    )


def _transfer_any(download: Download, path: Path, say: Say) -> tuple[str, bool]:
    """Transfer from the first URL that has the file.

    Returns that URL, and whether an earlier transfer was resumed.
    """
    size = "" if download.num_bytes is None else f" ({size_text(download.num_bytes)})"
    refused: list[DataError | Unavailable] = []
    for url in download.urls:
        say(f"downloading {url}{size}")
        try:
            return url, transfer(url, path, num_bytes=download.num_bytes, say=say)
        except (DataError, Unavailable) as error:
            refused.append(error)
    kind = DataError if isinstance(refused[0], DataError) else ResourceError
    raise kind(
        "\n".join(map(str, refused))
        + f"\nIf you have {Path(download.name).name}, name its folder with --from"
    )


def _verified(
    download: Download, path: Path, recorded: str | None, say: Say
) -> VerifiedFile:
    """Check a file that was there already."""
    try:
        digest = storage.sha256(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    expected = download.sha256 or recorded
    if expected not in (None, digest):
        raise DataError(_mismatch(download, str(path), digest, expected))
    if expected is None:
        say(
            f"{path}: nobody states its SHA-256, so this file is trusted; its own is "
            f"{digest}"
        )
    size = path.stat().st_size
    return VerifiedFile(download, path, digest, size, download.urls[0])


def _mismatch(download: Download, where: str, digest: str, expected: str | None) -> str:
    source = download.stated_by or RECORD
    return (
        f"{where} has SHA-256 {digest}, but must have {expected} ({source}): it is "
        "damaged, or another version; nothing of it was used. Delete a file that was "
        "copied there, and try again"
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the partial file of ``path``; raise ``UsageError`` if another process does.

    The lock is on a file of its own, as the partial file may be deleted meanwhile.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        lock.touch()
        handle = lock_while_used(lock)
    except OSError as error:
        raise storage.resource_error(error, path) from error
    if handle is None:
        raise UsageError(
            f"{path} is being downloaded by another process; wait for it to end"
        )
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _recorded(folder: Path, name: str) -> str | None:
    """Return the SHA-256 that was recorded for a file, if there is one."""
    try:
        lines = (folder / RECORD).read_text(encoding="utf-8").split("\n")
    except OSError:
        return None
    for line in lines:
        match = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
        if match and match[2] == name:
            return match[1]
    return None


def _record(folder: Path, name: str, digest: str) -> None:
    path = folder / RECORD
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    storage.write_text(path, f"{before}{digest}  {name}\n")


def moved_to(download: Download, base: str) -> Download:
    """Return ``download`` with a mirror as its only URL: ``base`` and its name."""
    return replace(download, urls=(f"{base.rstrip('/')}/{download.name}",))
