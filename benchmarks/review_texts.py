"""Texts of film reviews: to pre-train a model of sentiment on, and labelled phrases."""

from __future__ import annotations

import gzip
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from nltk import Tree

from headwise.text.trees import unescape_brackets

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


def labelled_phrases(path: Path) -> dict[str, str]:
    """Return the phrases of sst's trees in lower case, with their labels, 0 to 4.

    2 is neutral. A phrase of several trees has the label of its first one.
    """
    found: dict[str, str] = {}
    for line in read_text(path).splitlines():
        for phrase in Tree.fromstring(line).subtrees():
            words = (unescape_brackets(word) for word in phrase.leaves())
            text = re.sub(r"\\([/*])", r"\1", " ".join(words)).lower()
            found.setdefault(text, phrase.label())
    return found


def is_positive(probabilities: Mapping[str, float]) -> bool:
    """Tell whether both positive classes of sst are more probable than the negative."""
    p = defaultdict(float, probabilities)
    return p["3"] + p["4"] > p["0"] + p["1"]


def as_in_treebank(text: str) -> str:
    """Return a review in lower case, its words divided as those of sst are.

    Most punctuation stands alone in reviews already.
    """
    text = re.sub(r"n't\b", " n't", text.lower().replace('"', " '' "))
    text = re.sub(r"'(s|re|ve|ll|d|m)\b", r" '\1", text)
    return " ".join(re.sub(r"--(?=\s|$)", " --", text).split())


def read(path: Path) -> list[list[str]]:
    """Return the columns of each line of a table."""
    return [line.split("\t") for line in read_text(path).split("\n") if line]


def read_text(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")


def folded(text: str) -> str:
    """Return the words of a text, without case and punctuation."""
    return " ".join(re.sub(r"[^\w]+", " ", text.lower()).split())
