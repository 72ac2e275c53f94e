"""Film reviews without their labels, to pre-train a model of sentiment on."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

PRETRAINING_DEV = 300
"""Sentences of sst on which the masked language model is validated."""


def pretraining_texts(corpora: Path) -> dict[str, list[str]]:
    """Return all movie reviews, and the sentences of sst's training trees.

    Some of the sentences are for validation. Those that stand in sst's dev or test part
    too, neutral ones included, are left out.
    """
    rows = read(corpora / "movie-reviews" / "reviews.folds.tsv.gz")
    parts = {
        part: [text for _, text in read(corpora / "sst" / f"sst5_{part}.tsv{suffix}")]
        for part, suffix in (("train", ".gz"), ("dev", ""), ("test", ".gz"))
    }
    held_out = {folded(text) for part in ("dev", "test") for text in parts[part]}
    sentences = [x.lower() for x in parts["train"] if folded(x) not in held_out]
    return {
        "reviews": [as_in_treebank(row[3]) for row in rows],
        "sentences": sentences[PRETRAINING_DEV:],
        "dev": sentences[:PRETRAINING_DEV],
    }


def as_in_treebank(text: str) -> str:
    """Return a review in lower case, its words divided as those of sst are.

    Most punctuation stands alone in reviews already.
    """
    text = re.sub(r"n't\b", " n't", text.lower().replace('"', " '' "))
    text = re.sub(r"'(s|re|ve|ll|d|m)\b", r" '\1", text)
    return " ".join(re.sub(r"--(?=\s|$)", " --", text).split())


def read(path: Path) -> list[list[str]]:
    """Return the columns of each line of a table."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    return [line.split("\t") for line in text.split("\n") if line]


def folded(text: str) -> str:
    """Return the words of a text, without case and punctuation."""
    return " ".join(re.sub(r"[^\w]+", " ", text.lower()).split())
