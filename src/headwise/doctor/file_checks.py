"""Compare the files of a folder with its manifest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headwise import storage
from headwise.doctor.check import FAILED, OK, Check
from headwise.errors import ModelError
from headwise.wording import count_of

MAX_NAMED = 5
"""Most damaged files that are listed."""


def check_files(folder: Path, what: str) -> Iterator[Check]:
    """Yield a check for each damaged file of ``folder``, or one if all are intact."""
    try:
        manifest = storage.read_manifest(folder)
    except ModelError as error:
        yield Check(what, FAILED, str(error), "copy the whole folder again")
        return
    damages = list(storage.damaged_files(folder, manifest))
    for damage in damages[:MAX_NAMED]:
        found, _, advice = damage.rpartition(": ")
        yield Check(what, FAILED, found, advice)
    if len(damages) > MAX_NAMED:
        rest = f"{len(damages) - MAX_NAMED} more files are damaged"
        yield Check(what, FAILED, rest, "copy the whole folder again")
    if not damages:
        files = manifest["files"].values()
        size = sum(facts["bytes"] for facts in files)
        found = (
            f"{count_of(len(files), 'file')}, {size:,} bytes, all match the manifest"
        )
        yield Check(what, OK, found)
