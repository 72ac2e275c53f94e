"""WMT 2014: parliament, web, news and, for French, the UN and Giga-Fren.

Section 5.1 of *Attention Is All You Need* trains on these. Validation is newstest2013,
the test newstest2014 with all of its 3,003 sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

from headwise.data.public.archives import read_members
from headwise.data.public.checksums import stated
from headwise.data.public.corpus import Files, PublicCorpus, Say
from headwise.data.public.segments import (
    read_segments,
    without_entities,
    write_lines,
)
from headwise.errors import DataError
from headwise.wording import count_of

STATMT = "https://www.statmt.org"

URLS = {
    "wmt/training-parallel-europarl-v7.tgz": f"{STATMT}/wmt13",
    "wmt/training-parallel-commoncrawl.tgz": f"{STATMT}/wmt13",
    "wmt/training-parallel-un.tgz": f"{STATMT}/wmt13",
    "wmt/training-parallel-nc-v9.tgz": f"{STATMT}/wmt14",
    "wmt/training-giga-fren.tar": f"{STATMT}/wmt10",
    "wmt/dev.tgz": "https://data.statmt.org/wmt19/translation-task",
}
"""Folder of each download; the file has the name of the download."""

PARTS = {
    "wmt/training-parallel-europarl-v7.tgz": "training/europarl-v7.{other}-en.",
    "wmt/training-parallel-commoncrawl.tgz": "commoncrawl.{other}-en.",
    "wmt/training-parallel-nc-v9.tgz": "training/news-commentary-v9.{other}-en.",
}
"""Training text for both pairs: download -> path in it, before the language."""

FRENCH_PARTS = {
    **PARTS,
    "wmt/training-parallel-un.tgz": "un/undoc.2000.{other}-en.",
    "wmt/training-giga-fren.tar": "giga-fren.release2.fixed.",
}

COMPRESSED = "wmt/training-giga-fren.tar"
"""The one whose members are gzipped."""


def wmt14_en_de() -> PublicCorpus:
    """Return English and German, 4.5 million pairs."""
    return _wmt14("de", PARTS, num_pairs=4_508_785)


def wmt14_en_fr() -> PublicCorpus:
    """Return English and French, 41 million pairs."""
    return _wmt14("fr", FRENCH_PARTS, num_pairs=40_836_715)


def _wmt14(other: str, parts: Mapping[str, str], *, num_pairs: int) -> PublicCorpus:
    languages = ("en", other)
    names = (*parts, "wmt/dev.tgz")

    def write(files: Files, folder: Path, say: Say) -> None:
        texts = [folder / f"train.{language}" for language in languages]
        for name, prefix in parts.items():
            say(f"reading {Path(name).name}")
            drafts = [folder / f"part.{language}" for language in languages]
            suffix = ".gz" if name == COMPRESSED else ""
            members = [
                f"{prefix.format(other=other)}{language}{suffix}"
                for language in languages
            ]
            read_members(files[name], dict(zip(members, drafts, strict=True)))
            count = append_pairs(drafts, texts, name=Path(name).name)
            say(f"{Path(name).name}: {count_of(count, 'pair')}")
        _write_tests(files["wmt/dev.tgz"], folder, other)

    return PublicCorpus(
        name=f"wmt14-en-{other}",
        languages=languages,
        num_pairs=num_pairs,
        license="research use; no formal licence (statmt.org/wmt14)",
        publisher="WMT",
        homepage="https://www.statmt.org/wmt14/translation-task.html",
        citation="Bojar et al. 2014 (W14-3302)",
        downloads=tuple(
            stated(name, f"{URLS[name]}/{Path(name).name}") for name in names
        ),
        write=write,
        split="newstest2013 for validation, newstest2014 (all 3,003) as the test",
    )


def append_pairs(drafts: Sequence[Path], texts: Sequence[Path], *, name: str) -> int:
    """Append two line-aligned files to two others, and delete them.

    Returns the number of pairs. Raises ``DataError`` unless both have as many lines.
    """
    counts = [0, 0]
    with ExitStack() as opened:
        one, two = (opened.enter_context(each.open("rb")) for each in drafts)
        to_one, to_two = (opened.enter_context(each.open("ab")) for each in texts)
        for left, right in zip_longest(one, two):
            counts[0] += left is not None
            counts[1] += right is not None
            if left is not None and right is not None:
                to_one.write(left.removesuffix(b"\n") + b"\n")
                to_two.write(right.removesuffix(b"\n") + b"\n")
    if counts[0] != counts[1]:
        raise DataError(
            f"{name} has {counts[0]:,} lines in one language and {counts[1]:,} in the "
            "other; line N of both must belong together"
        )
    for draft in drafts:
        draft.unlink()
    return counts[0]


def _write_tests(archive: Path, folder: Path, other: str) -> None:
    """Write newstest2013, which is plain, and newstest2014, which is SGML."""
    members = {
        f"dev/newstest2013.{language}": folder / f"newstest2013.{language}"
        for language in ("en", other)
    }
    drafts = {
        other: folder / f"newstest2014.{other}.sgm",
        "en": folder / "newstest2014.en.sgm",
    }
    members[f"dev/newstest2014-{other}en-src.{other}.sgm"] = drafts[other]
    members[f"dev/newstest2014-{other}en-ref.en.sgm"] = drafts["en"]
    read_members(archive, members)
    texts = {language: read_segments(draft) for language, draft in drafts.items()}
    if len(texts["en"]) != len(texts[other]):
        raise DataError(
            f"newstest2014 has {count_of(len(texts['en']), 'English segment')} and "
            f"{len(texts[other]):,} of the other language"
        )
    for language, draft in drafts.items():
        lines = map(without_entities, texts[language])
        write_lines(folder / f"newstest2014.{language}", lines)
        draft.unlink()
