"""Sentence pairs of Tatoeba, as manythings.org/anki publishes them.

That site keeps only its newest files, whose content changes every few months. So that a
split stays the same, copies of two of its files at fixed commits are downloaded.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from importlib.resources import files as package_files
from itertools import accumulate
from pathlib import Path

from headwise.data.public.checksums import digests_of, stated
from headwise.data.public.corpus import Download, Files, PublicCorpus, Say
from headwise.data.public.tatoeba_split import read_pairs, split
from headwise.errors import DataError

GITHUB = "https://raw.githubusercontent.com"
FRENCH = f"{GITHUB}/modelexlab/data/adddaf33ac35572bcfeb421efec29435e7ea9332"
GERMAN = f"{GITHUB}/rioyshky/translation/de48b7027f7318d77010a6e08ed928c10748c23d"


def tatoeba_en_fr() -> PublicCorpus:
    """Return the pairs of English and French of 2019-04-08."""
    return _tatoeba(
        "fr",
        stated("tatoeba/fra-eng.zip", f"{FRENCH}/fra-eng.zip"),
        member="fra-eng/fra.txt",
        num_pairs=147_413,
    )


def tatoeba_en_de() -> PublicCorpus:
    """Return the pairs of English and German of 2018-05-13."""
    return _tatoeba(
        "de",
        stated("tatoeba/deu-eng.zip", f"{GERMAN}/deu-eng.zip"),
        member="deu.txt",
        num_pairs=154_233,
    )


def _tatoeba(
    other: str,
    download: Download,
    *,
    member: str,
    num_pairs: int,
) -> PublicCorpus:
    name = f"tatoeba-en-{other}"

    def write(files: Files, folder: Path, say: Say) -> None:
        pairs = read_pairs(_read_text(files[download.name], member))
        found = split(pairs, set_aside_of(name))
        _write_rows(folder / "train.tsv", found.train)
        _write_rows(folder / "set_aside.tsv", found.set_aside)
        for part, rows in (("dev", found.dev), ("test", found.test)):
            _write_rows(folder / f"{part}.tsv", (row[:2] for row in rows))
            _write_rows(folder / f"{part}.allrefs.tsv", rows)

    return PublicCorpus(
        name=name,
        languages=("en", other),
        num_pairs=num_pairs,
        license="CC BY 2.0 FR",
        publisher="Tatoeba and ManyThings.org",
        homepage="https://www.manythings.org/anki/",
        citation="Attribution: www.manythings.org/anki and tatoeba.org",
        downloads=(download,),
        write=write,
        split="2,000 English sentences for validation and 2,000 for the test, which "
        "share no sentence with training; those of the Tatoeba Challenge test set, and "
        "those held out of the other language, are set aside",
        digests=digests_of(name),
    )


def set_aside_of(name: str) -> set[int]:
    """Return the indices of the pairs that are set aside.

    Their file has, of each, the distance from the one before; the first counts from 1.
    """
    package = package_files("headwise.data.public")
    text = (package / f"{name}.set-aside.txt").read_text(encoding="utf-8")
    return {number - 1 for number in accumulate(map(int, text.split()))}


def _read_text(archive: Path, member: str) -> str:
    try:
        with zipfile.ZipFile(archive) as opened:
            return opened.read(member).decode("utf-8")
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise DataError(f"{archive} cannot be read: {error}") from None


def _write_rows(path: Path, rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines("\t".join(row) + "\n" for row in rows)
