"""What a rehearsal trains on: the first lines of real corpora, for a few updates."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

SMALL = (
    *("text.vocab_size=300", "training.steps=4", "training.warmup_steps=2"),
    *("training.validate_every=2", "training.validation_pairs=20"),
)
"""What is changed for a rehearsal."""


def beginnings(corpora: Path, folder: Path, lines: int = 600) -> Path:
    """Write the first lines of all files; return their folder."""
    for path in corpora.glob("*/*"):
        if path.suffix not in (".gz", ".tsv"):
            continue
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8", newline="\n") as text:
            kept = "".join(islice(text, lines))
        copy = folder / path.relative_to(corpora)
        copy.parent.mkdir(parents=True, exist_ok=True)
        with opened(copy, "wt", encoding="utf-8", newline="\n") as out:
            out.write(kept)
    return folder
