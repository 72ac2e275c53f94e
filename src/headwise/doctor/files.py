"""Whether the files of a folder are what its manifest says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headwise import storage
from headwise.doctor.check import FAILED, OK, Finding
from headwise.errors import ModelError
from headwise.wording import count_of

MOST_NAMED = 5
"""Damaged files that are named one by one."""


def look_at_files(folder: Path, what: str) -> Iterator[Finding]:
    """Read every file of ``folder`` and compare it with the manifest."""
    try:
        manifest = storage.read_manifest(folder)
    except ModelError as error:
        yield Finding(what, FAILED, str(error), "copy the whole folder again")
        return
    damages = list(storage.damages(folder, manifest))
    for damage in damages[:MOST_NAMED]:
        found, _, advice = damage.rpartition(": ")
        yield Finding(what, FAILED, found, advice)
    if len(damages) > MOST_NAMED:
        rest = f"{len(damages) - MOST_NAMED} more files are damaged"
        yield Finding(what, FAILED, rest, "copy the whole folder again")
    if not damages:
        files = manifest["files"].values()
        size = sum(facts["bytes"] for facts in files)
        found = (
            f"{count_of(len(files), 'file')}, {size:,} bytes, all as the manifest says"
        )
        yield Finding(what, OK, found)
