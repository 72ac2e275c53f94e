"""Multi30K, task 1: image captions and their translations (Elliott et al. 2016)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from headwise.data.public.archives import gunzip
from headwise.data.public.checksums import stated
from headwise.data.public.corpus import Files, PublicCorpus, Say

COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
BASE = f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1"

TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
TESTS_OF = {"de": TESTS, "fr": TESTS, "cs": TESTS[:1]}
"""Test sets by target language."""


def multi30k(target: str, tests: Sequence[str] | None = None) -> PublicCorpus:
    """Return the corpus from English into ``target``: de, fr or cs."""
    wanted = TESTS_OF[target] if tests is None else tuple(tests)
    paths = [
        path
        for part in ("train", "val", *wanted)
        for language in ("en", target)
        for path in (
            f"raw/{part}.{language}.gz",
            f"tok/{part}.lc.norm.tok.{language}",
        )
    ]

    def write(files: Files, folder: Path, say: Say) -> None:
        (folder / "tok").mkdir()
        for path in paths:
            source = files[f"multi30k/{path}"]
            if path.startswith("raw/"):
                gunzip(source, folder / Path(path).stem)
            else:
                shutil.copyfile(source, folder / path)

    return PublicCorpus(
        name=f"multi30k-en-{target}",
        languages=("en", target),
        num_pairs=29_000,
        license="research and education, not commercial; no formal licence",
        publisher="Multi30K authors",
        homepage="https://github.com/multi30k/dataset",
        citation="Elliott et al. 2016 (W16-3210), 2017 (W17-4718); Barrault et al. "
        "2018 (W18-6402)",
        downloads=tuple(stated(f"multi30k/{path}", f"{BASE}/{path}") for path in paths),
        write=write,
        split="the publisher's: train, val, and the test sets; tok/ has them "
        "lower-cased, punctuation normalised and tokenised",
    )
