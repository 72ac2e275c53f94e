"""What a public corpus consists of: downloads, and how text files are made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Say = Callable[[str], None]

Files = Mapping[str, Path]
"""The verified files of a corpus, by the name of their :class:`Download`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Download:
    """A file of a publisher."""

    name: str
    """Path in a folder of downloads, such as "wmt14/dev.tgz"."""

    urls: tuple[str, ...]
    """Where it is published; the later ones are mirrors of the first."""

    sha256: str | None = None
    """SHA-256 in hexadecimal; None: nobody states it, so the first one is trusted."""

    num_bytes: int | None = None
    """Size in bytes; None: unknown."""

    stated_by: str = ""
    """Where the SHA-256 was taken from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicCorpus:
    """A corpus that somebody publishes."""

    name: str
    languages: tuple[str, str]
    """Language codes, the source of the usual direction first."""

    num_pairs: int
    """Training pairs, as its publisher or the literature counts them."""

    license: str
    """The licence, or the publisher's words where there is no formal one."""

    publisher: str
    homepage: str
    citation: str
    """What its users are asked to cite or name."""

    downloads: tuple[Download, ...]
    write: Callable[[Files, Path, Say], None]
    """Writes the text files of the corpus into a folder."""

    split: str = ""
    """How training, validation and test text are told apart."""

    digests: Mapping[str, str] | None = None
    """SHA-256 of written files, where others must get the same bits: name -> digest."""

    @property
    def num_bytes(self) -> int | None:
        """Size of all downloads; None if one of them is unknown."""
        sizes = [each.num_bytes for each in self.downloads]
        return None if None in sizes else sum(size for size in sizes if size)
