"""A prepared corpus: tokenized pairs in a folder, memory-mapped.

prepared.json                 settings, counts, lengths, fingerprint
train.tokens.npy              all tokens, source and target of each pair in turn
                              (of pictures: the label or caption of each)
train.offsets.npy             start of each side (of documents: corpus), and the end
train.pixels.npy              of pictures, in place of source tokens: all patches
dev.tokens.npy dev.offsets.npy
dev.source.txt dev.target.txt raw text of the validation pairs, for scores
dropped.tsv                   every dropped pair, with the reason
tokenizer/                    trained on the training set
manifest.json                 sizes, SHA-256
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from headwise import settings, storage
from headwise.data.example_stores import ExampleStore, PairStore, WeightedRange
from headwise.data.pair_formats import (
    DOCUMENTS,
    PAIR_FORMATS,
    TRANSLATION,
)
from headwise.data.picture_store import PictureStore
from headwise.data.token_stream import TokenStream
from headwise.errors import DataError, ModelError, SettingsError
from headwise.text.tokenizer import GivenTokenizers, TokenizerPair, open_tokenizers

FORMAT = 1
FACTS = "prepared.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusFacts:
    """Counts of one corpus; ``read`` is the sum of those from ``train`` on."""

    source: str
    target: str | None
    weight: float
    first_pair: int
    """Index of its first pair in the training set; its pairs are consecutive."""
    read: int
    train: int
    dev: int
    empty: int
    too_long: int
    held_out: int
    """Dropped because a validation pair has the same source."""

    reversed: int = 0
    """Training pairs that are there the other way round too: all or none. They stand
    between the others, and are not in ``read``."""

    further_parts: int = 0
    """Rows of the training set beyond the first of each text that is cut into parts.
    They follow the first, and are not in ``read``."""

    @property
    def examples(self) -> int:
        """Rows of the training set: pairs of both directions, parts of long texts."""
        return self.train + self.reversed + self.further_parts


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitFacts:
    """Counts of the training or validation set, without special tokens."""

    pairs: int
    source_tokens: int
    target_tokens: int
    longest_source: int
    longest_target: int
    several_sentences: int | None = None
    """Pairs whose source has several sentences; None: they were not counted."""
    further_parts: int = 0
    """How many of the pairs are parts of a long text, its first one apart."""

    @property
    def texts(self) -> int:
        """Pairs, of which the parts of a long text count as one."""
        return self.pairs - self.further_parts

    @property
    def longest(self) -> tuple[int, int]:
        """Tokens of the longest source and of the longest target."""
        return self.longest_source, self.longest_target

    @property
    def mean_source(self) -> float:
        """Mean number of source tokens."""
        return self.source_tokens / max(1, self.pairs)

    @property
    def mean_target(self) -> float:
        """Mean number of target tokens."""
        return self.target_tokens / max(1, self.pairs)


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedFacts:
    """The counts in ``prepared.json``."""

    fingerprint: str
    seed: int
    max_tokens: int
    source_vocabulary: int
    target_vocabulary: int
    joint: bool
    pair_format: str = TRANSLATION.name
    """What the sides of a pair are: see :data:`headwise.data.pair_formats`."""
    train: SplitFacts
    dev: SplitFacts
    corpora: tuple[CorpusFacts, ...]
    dev_corpus: CorpusFacts | None = None

    def __post_init__(self) -> None:
        if self.pair_format not in PAIR_FORMATS:
            raise SettingsError(
                [
                    f"pair_format must be one of {', '.join(PAIR_FORMATS)}, not "
                    f"{self.pair_format!r}"
                ]
            )

    @property
    def all_corpora(self) -> tuple[CorpusFacts, ...]:
        """The training corpora, and the validation corpus if there is one."""
        return (*self.corpora, *([self.dev_corpus] if self.dev_corpus else []))

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether END follows each source, and each target."""
        return PAIR_FORMATS[self.pair_format].ends

    @property
    def patch_values(self) -> int | None:
        """Numbers of a patch, which is a source token of pictures; None for text."""
        reads_pictures = PAIR_FORMATS[self.pair_format].reads_pictures
        return self.source_vocabulary if reads_pictures else None


class PreparedCorpus:
    """An open prepared corpus; see ``PreparedCorpus.open``."""

    def __init__(self, folder: Path, facts: PreparedFacts, fields: Any) -> None:
        self.folder = folder
        self.facts = facts
        self.fields = fields
        """All of ``prepared.json``, with the settings of the corpus."""

    @classmethod
    def open(cls, folder: Path, *, thorough: bool = False) -> PreparedCorpus:
        """Open ``folder``; check the size of every file, with ``thorough`` its SHA-256.

        Raises ``DataError`` for a folder that is damaged or not a prepared corpus.
        """
        try:
            if thorough:
                storage.verify(folder)
            else:
                _check_sizes(folder)
            fields = storage.read_json(folder / FACTS)
        except ModelError as error:
            raise DataError(f"not a prepared corpus: {error}") from None
        if not isinstance(fields, dict) or fields.get("format") != FORMAT:
            raise DataError(
                f"{folder / FACTS} is not of format {FORMAT}, which this version "
                "reads; prepare the corpus again"
            )
        table = fields.get("facts")
        try:
            facts = settings.read(PreparedFacts, table if type(table) is dict else {})
        except SettingsError as error:
            raise DataError(f"{folder / FACTS} cannot be used:\n{error}") from None
        return cls(folder, facts, fields)

    def open_files(self) -> None:
        """Open all that a training reads; it stays the same if ``folder`` is replaced.

        Raises ``DataError`` if ``folder`` was replaced before.
        """
        try:
            for name in ("train", "dev", "dev_text", "tokenizers"):
                getattr(self, name)
        finally:  # files of two corpora may not fit each other
            self._check_not_replaced()

    @cached_property
    def train(self) -> ExampleStore:
        """The training pairs, or windows of the training text."""
        if self.facts.pair_format == DOCUMENTS.name:
            weights = [each.weight for each in self.facts.corpora]
            return self._stream("train", weights)
        return self._store(
            "train",
            [
                WeightedRange(
                    each.first_pair, each.first_pair + each.examples, each.weight
                )
                for each in self.facts.corpora
                if each.train
            ],
        )

    @cached_property
    def dev(self) -> ExampleStore:
        """The validation pairs, or windows of the validation text."""
        if self.facts.pair_format == DOCUMENTS.name:
            return self._stream("dev", None)
        return self._store("dev", None)

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers of source and target."""
        return open_tokenizers(self.folder / "tokenizer")

    @property
    def given_tokenizers(self) -> GivenTokenizers:
        """Those of the tokenizers that were given, not trained on this text."""
        sides = self.fields.get("given_tokenizers", ())
        words = self.tokenizers.known_words if sides else None
        return GivenTokenizers(
            **{side: getattr(self.tokenizers, side) for side in sides},
            known_words=words,
        )

    @cached_property
    def dev_text(self) -> tuple[list[str], list[str]]:
        """Raw source and target lines of the validation pairs."""
        return self._lines("dev.source.txt"), self._lines("dev.target.txt")

    def _check_not_replaced(self) -> None:
        try:
            is_same = storage.read_json(self.folder / FACTS) == self.fields
        except ModelError:
            is_same = False
        if not is_same:
            raise DataError(
                f"{self.folder} was prepared again, or moved, while it was being "
                "opened, so that its files may not fit each other; start again, once "
                "no headwise prepare writes to it"
            )

    def _store(
        self, name: str, ranges: Sequence[WeightedRange] | None
    ) -> PairStore | PictureStore:
        if self.facts.patch_values is not None:
            return PictureStore(
                self.folder / f"{name}.pixels.npy",
                self.folder / f"{name}.tokens.npy",
                self.folder / f"{name}.offsets.npy",
                ranges,
                num_patches=self.facts.train.longest_source,
                patch_values=self.facts.patch_values,
                ends=self.facts.ends,
            )
        return PairStore(
            self.folder / f"{name}.tokens.npy",
            self.folder / f"{name}.offsets.npy",
            ranges,
            ends=self.facts.ends,
        )

    def _stream(self, name: str, weights: Sequence[float] | None) -> ExampleStore:
        return TokenStream(
            self.folder / f"{name}.tokens.npy",
            self.folder / f"{name}.offsets.npy",
            self.facts.max_tokens,
            weights,
        )

    def _lines(self, name: str) -> list[str]:
        text = (self.folder / name).read_bytes().decode("utf-8")
        return text.split("\n")[:-1]


def _check_sizes(folder: Path) -> None:
    for name, facts in storage.read_manifest(folder)["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != facts["bytes"]:
            raise ModelError(
                f"{path} is missing, or its size differs from {storage.MANIFEST}; the "
                "folder is incomplete or was changed: copy or prepare it again"
            )
