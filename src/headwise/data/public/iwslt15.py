"""IWSLT 2015, English to Vietnamese, tokenised by Luong and Manning (2015)."""

from __future__ import annotations

import shutil
from pathlib import Path

from headwise.data.public.checksums import stated
from headwise.data.public.corpus import Files, PublicCorpus, Say

BASE = "https://nlp.stanford.edu/projects/nmt/data"

NAMES = tuple(
    f"iwslt15.en-vi/{part}.{language}"
    for part in ("train", "tst2012", "tst2013")
    for language in ("en", "vi")
)


def iwslt15_en_vi() -> PublicCorpus:
    """Return the texts as they are published: one sentence a line, tokenised."""

    def write(files: Files, folder: Path, say: Say) -> None:
        for name in NAMES:
            shutil.copyfile(files[name], folder / Path(name).name)

    return PublicCorpus(
        name="iwslt15-en-vi",
        languages=("en", "vi"),
        num_pairs=133_317,
        license="CC BY-NC-ND (TED talks, by WIT3)",
        publisher="Stanford NLP",
        homepage="https://nlp.stanford.edu/projects/nmt/",
        citation="Luong and Manning 2015; Cettolo et al. 2015",
        downloads=tuple(stated(name, f"{BASE}/{name}") for name in NAMES),
        write=write,
        split="the publisher's: train, tst2012 for validation, tst2013 as the test",
    )
