"""Get a public corpus: download, verify, and write its text files into a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import unidata_version

from headwise import storage
from headwise.data.public.corpus import Download, PublicCorpus
from headwise.data.public.download import VerifiedFile, fetch, find, moved_to
from headwise.errors import DataError, ModelError, UsageError

Say = Callable[[str], None]

KIND = "public corpus"
FACTS = "corpus.json"
"""File of a corpus with its licence, and where each download is from."""


def get_corpus(
    corpus: PublicCorpus,
    out: Path,
    *,
    downloads: Path,
    local: str | None = None,
    say: Say = lambda _: None,
) -> bool:
    """Write ``corpus`` into the folder ``out``; return False if it is there already.

    ``downloads`` is the folder of downloaded files, which are kept. ``local`` is a
    folder, or the URL of a mirror, to take them from instead; they are checked the same
    way. Raises ``DataError`` for a file that is not what it must be, ``ResourceError``
    for network and disk, ``UsageError`` if ``out`` has other files.
    """
    if _is_complete(corpus, out):
        return False
    storage.check_replaceable(out, KIND)
    files = [
        _file(each, downloads=downloads, local=local, say=say)
        for each in corpus.downloads
    ]
    describe = {"kind": KIND, "name": corpus.name}
    with storage.new_folder(out, describe=describe) as draft:
        corpus.write({each.download.name: each.path for each in files}, draft, say)
        _check_digests(corpus, draft)
        storage.write_json(draft / FACTS, _facts(corpus, files))
    return True


def is_url(local: str) -> bool:
    """Return whether ``local`` is the URL of a mirror rather than a folder."""
    return local.startswith(("http://", "https://"))


def _file(
    download: Download, *, downloads: Path, local: str | None, say: Say
) -> VerifiedFile:
    if local is None:
        return fetch(download, downloads, say=say)
    if is_url(local):
        return fetch(moved_to(download, local), downloads, say=say)
    return find(download, Path(local), say=say)


def _is_complete(corpus: PublicCorpus, out: Path) -> bool:
    """Return whether ``out`` is this corpus, undamaged."""
    try:
        manifest = storage.read_manifest(out)
    except ModelError:
        return False
    if manifest.get("kind") != KIND:
        return False
    if manifest.get("name") != corpus.name:
        raise UsageError(
            f"{out} is {manifest.get('name')}, not {corpus.name}; name another folder "
            "with --out"
        )
    return not any(storage.damaged_files(out, manifest))


def _check_digests(corpus: PublicCorpus, draft: Path) -> None:
    """Raise ``DataError`` if files differ from those that others have."""
    for name, expected in (corpus.digests or {}).items():
        found = storage.sha256(draft / name)
        if found != expected:
            raise DataError(
                f"{name} of {corpus.name} would have SHA-256 {found}, but scores are "
                f"comparable with {expected} only: Unicode {unidata_version}, which "
                "this Python has, may sort letters and punctuation differently; try "
                "another version of Python"
            )


def _facts(corpus: PublicCorpus, files: list[VerifiedFile]) -> dict[str, Any]:
    return {
        "name": corpus.name,
        "languages": list(corpus.languages),
        "license": corpus.license,
        "publisher": corpus.publisher,
        "homepage": corpus.homepage,
        "citation": corpus.citation,
        "split": corpus.split,
        "downloads": [
            {
                "name": each.download.name,
                "url": each.url,
                "bytes": each.num_bytes,
                "sha256": each.sha256,
                "sha256_stated_by": each.download.stated_by or "nobody",
            }
            for each in files
        ],
    }
