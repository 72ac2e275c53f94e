"""The stated SHA-256 and sizes of downloads, and who states them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from headwise.data.public.corpus import Download


@dataclass(frozen=True, slots=True)
class Checksum:
    """What is stated of a file."""

    sha256: str
    num_bytes: int
    stated_by: str


@cache
def checksums() -> dict[str, Checksum]:
    """Return the lines of ``checksums.txt`` by the name of the download."""
    text = (files(__package__) / "checksums.txt").read_text(encoding="utf-8")
    found: dict[str, Checksum] = {}
    stated_by = ""
    for line in text.rstrip("\n").split("\n"):
        if line.startswith("# "):
            stated_by = line.removeprefix("# ")
        else:
            sha256, num_bytes, name = line.split(" ")
            found[name] = Checksum(sha256, int(num_bytes), stated_by)
    return found


def stated(name: str, *urls: str) -> Download:
    """Return a download with its stated SHA-256; without one if nobody states it."""
    known = checksums().get(name)
    if known is None:
        return Download(name=name, urls=urls)
    return Download(
        name=name,
        urls=urls,
        sha256=known.sha256,
        num_bytes=known.num_bytes,
        stated_by=known.stated_by,
    )


def digests_of(corpus: str) -> dict[str, str]:
    """Return the SHA-256 of files that ``corpus`` must have when it is written."""
    return {
        name.removeprefix(f"{corpus}/"): known.sha256
        for name, known in checksums().items()
        if name.startswith(f"{corpus}/")
    }
