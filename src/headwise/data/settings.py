"""Settings of corpora: files, formats, weights, validation set."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from headwise.errors import SettingsError

Layout = Literal["lines", "tsv", "jsonl", "text", "trees", "pictures", "dialogues"]

SUFFIXES: dict[str, Layout] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".mrg": "trees",
}
"""Format by the suffix of a file, without ``.gz``, for ``format = "auto"``."""


def layout_of(path: str) -> Layout | None:
    """Return the format of a file by its suffix, which ``.gz`` may follow."""
    return SUFFIXES.get(PurePath(path.lower().removesuffix(".gz")).suffix)


def is_csv(path: str) -> bool:
    """Return whether a file is a CSV by its suffix, which ``.gz`` may follow."""
    return path.lower().endswith((".csv", ".csv.gz"))


def csv_as_tsv(path: str) -> str:
    """Return a command that makes a TSV of a CSV, which may be compressed by gzip."""
    reader = "gzip -dc" if path.lower().endswith(".gz") else "cat"
    return (
        f"{reader} {shlex.quote(path)} | python3 -c 'import csv, sys; "
        '[print(*(" ".join(c.split()) for c in r), sep="\\t") '
        "for r in csv.reader(sys.stdin)]' > data.tsv"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusSettings:
    """A corpus: two line-aligned files, a TSV, JSON Lines, text alone, or a treebank.

    Each may be a .gz file.
    """

    source: str
    """Path of the source text, or of the file with both sides."""

    target: str | None = None
    """Path of the target text; not set if ``source`` has both sides."""

    format: Literal[
        "auto", "lines", "tsv", "jsonl", "text", "trees", "pictures", "dialogues"
    ] = "auto"
    """File format; auto: lines if there is a target, otherwise by the suffix. text: the
    file is one document, without a target. trees: a treebank in the brackets of the
    Penn Treebank; the source of a tree is its words. pictures: a folder of PNG files
    with a sub-folder for each label, a list of files with labels, or a .npz file.
    dialogues: JSON Lines with the turns of a dialogue in each."""

    source_column: int = 1
    """TSV column of the source, counted from 1."""

    target_column: int = 2
    """TSV column of the target, counted from 1."""

    source_field: str = "source"
    """JSON key of the source, at the top level or inside "translation"."""

    target_field: str = "target"
    """JSON key of the target, at the top level or inside "translation"."""

    join_words: str | None = None
    """Of a treebank: what is written between several words in one bracket, to make one
    word of them; not set: they are an error."""

    weight: float = 1.0
    """Mean number of times that an epoch takes each pair; 0.5: half of the pairs."""

    def __post_init__(self) -> None:
        problems = []
        if not self.source:
            problems.append("source must be a path, not an empty text")
        if self.format == "lines" and self.target is None:
            problems.append("format 'lines' needs a target file beside the source")
        alone = ("tsv", "jsonl", "text", "trees", "pictures", "dialogues")
        if self.format in alone and self.target is not None:
            problems.append(
                f"format {self.format!r} reads both sides from source; leave target "
                f"({self.target!r}) out, or choose format 'lines'"
            )
        if (
            self.format == "auto"
            and self.target is None
            and layout_of(self.source) is None
        ):
            remedy = "set target, or format to 'tsv' or 'jsonl'"
            if is_csv(self.source):
                remedy = f"make a TSV of it, for example with {csv_as_tsv(self.source)}"
            problems.append(
                f"source {self.source!r} has no target, and its suffix is none of "
                f"{', '.join(SUFFIXES)} (or with .gz); {remedy}"
            )
        if min(self.source_column, self.target_column) < 1:
            problems.append(
                f"source_column and target_column count from 1, not "
                f"{self.source_column} and {self.target_column}"
            )
        elif self.source_column == self.target_column:
            problems.append(
                f"source_column and target_column are both {self.source_column}"
            )
        if self.source_field == self.target_field:
            problems.append(
                f"source_field and target_field are both {self.source_field!r}"
            )
        if self.join_words is not None and re.search(r"[\s()]", self.join_words):
            problems.append(
                "join_words must have no white space and no brackets, such as '_', not "
                f"{self.join_words!r}"
            )
        if self.join_words is not None and self.layout != "trees":
            problems.append(
                "join_words is for treebanks (format 'trees'); leave it out"
            )
        if not (math.isfinite(self.weight) and 0 < self.weight <= 100):
            problems.append(f"weight must be above 0, at most 100, not {self.weight}")
        if problems:
            raise SettingsError(problems)

    @property
    def layout(self) -> Layout:
        """File format, with "auto" resolved."""
        if self.format != "auto":
            return self.format
        suffix = layout_of(self.source)
        return "lines" if self.target is not None or suffix is None else suffix

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files, the source first."""
        return (self.source,) if self.target is None else (self.source, self.target)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSettings:
    """The training and validation text of one experiment."""

    corpora: tuple[CorpusSettings, ...] = ()
    """Training corpora, mixed by their weights."""

    dev: CorpusSettings | None = None
    """Validation set; not set: split off the training corpora."""

    dev_pairs: int | None = None
    """Number of pairs to split off for validation; not set: 2%, or 10% of texts and
    pictures with one label or number each, from 50 to 2,000, at most a tenth. Of
    text alone: of lines at the end of each corpus; not set: 5%."""

    both_directions: bool = False
    """Train on each pair the other way round too, as a first stage of training (Ding et
    al. 2021): a joint vocabulary, and validation in the direction of the pairs."""

    max_tokens: int = 256
    """Longest side of a pair, in tokens without END; longer pairs are dropped. Of text
    alone: the length of the windows that are trained on. Of text with one label or
    number: a longer text is cut into parts, and each is a pair."""

    def __post_init__(self) -> None:
        problems = []
        if self.dev is not None and self.dev_pairs is not None:
            problems.append(
                f"dev and dev_pairs ({self.dev_pairs}) exclude each other; set one of "
                "them"
            )
        if self.dev_pairs is not None and self.dev_pairs < 1:
            problems.append(f"dev_pairs must be at least 1, not {self.dev_pairs}")
        if self.max_tokens < 1:
            problems.append(f"max_tokens must be at least 1, not {self.max_tokens}")
        if problems:
            raise SettingsError(problems)
