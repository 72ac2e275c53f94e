"""A prepared corpus: tokenized pairs in a folder, memory-mapped.

prepared.json                 settings, counts, lengths, fingerprint
train.tokens.npy              all tokens, source and target of each pair in turn
train.offsets.npy             start of each side (of documents: corpus), and the end
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
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headwise import settings, storage
from headwise.data.npy_files import MappedNpyFile
from headwise.data.pair_formats import DOCUMENTS, PAIR_FORMATS, TRANSLATION
from headwise.errors import DataError, ModelError, SettingsError
from headwise.text.tokenizer import TokenizerPair, open_tokenizers

FORMAT = 1
FACTS = "prepared.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusFacts:
    """Counts of one corpus; ``read`` is the sum of the counts after it."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitFacts:
    """Counts of the training or validation set, without special tokens."""

    pairs: int
    source_tokens: int
    target_tokens: int
    longest_source: int
    longest_target: int

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
    def ends(self) -> tuple[bool, bool]:
        """Whether END follows each source, and each target."""
        return PAIR_FORMATS[self.pair_format].ends


@dataclass(frozen=True, slots=True)
class WeightedRange:
    """Consecutive pairs that each epoch takes ``weight`` times."""

    start: int
    stop: int
    weight: float


@dataclass(frozen=True, slots=True)
class Side:
    """Ragged rows of tokens, concatenated."""

    tokens: NDArray[Any]
    lengths: NDArray[np.int64]


class ExampleStore(Protocol):
    """The examples of a training or validation set: pairs, or windows of a text."""

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether END is to follow each source, and each target."""
        ...

    def __len__(self) -> int: ...

    def indices(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices, by which examples are asked for, of these numbers."""
        ...

    def sides(self, indices: NDArray[np.int64]) -> tuple[Side, Side]:
        """Return the sources and the targets of some examples."""
        ...

    def lengths(
        self, start: int = 0, stop: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return source and target lengths of examples ``start`` to ``stop``."""
        ...

    def count_tokens(self, indices: NDArray[np.int64]) -> tuple[int, int]:
        """Return the number of source and target tokens, END included."""
        ...

    def release_pages(self) -> None:
        """Return the memory of pages that were read to the system."""
        ...


class PairStore:
    """Memory-mapped pairs of token sequences, without START and END.

    ``ends`` says whether END is to follow each source, and each target.
    """

    def __init__(
        self,
        tokens: Path,
        offsets: Path,
        ranges: Sequence[WeightedRange] | None = None,
        *,
        ends: tuple[bool, bool] = (True, True),
    ) -> None:
        self.ends = ends
        self._tokens = MappedNpyFile(tokens)
        self._offsets = MappedNpyFile(offsets)
        self._num_pairs = len(self._offsets.values) // 2
        self.ranges = tuple(ranges or [WeightedRange(0, self._num_pairs, 1.0)])
        if self._offsets.values[-1:].tolist() != [len(self._tokens.values)] or (
            self.ranges[-1].stop != self._num_pairs
        ):
            raise DataError(
                f"{offsets} does not fit {tokens} or {FACTS}; prepare the corpus again"
            )

    def __len__(self) -> int:
        return self._num_pairs

    def indices(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return ``numbers``: a pair's index is its number."""
        return numbers

    def source(self, index: int) -> NDArray[Any]:
        """Return the source tokens of pair ``index``."""
        return self._side(2 * index)

    def target(self, index: int) -> NDArray[Any]:
        """Return the target tokens of pair ``index``."""
        return self._side(2 * index + 1)

    def sides(self, indices: NDArray[np.int64]) -> tuple[Side, Side]:
        """Return the sources and the targets of some pairs."""
        source, target = (self._sides(2 * indices + side) for side in (0, 1))
        return source, target

    def lengths(
        self, start: int = 0, stop: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return source and target lengths of the pairs from ``start`` to ``stop``."""
        stop = len(self) if stop is None else stop
        sides = np.diff(self._offsets.values[2 * start : 2 * stop + 1])
        return sides[0::2], sides[1::2]

    def count_tokens(self, indices: NDArray[np.int64]) -> tuple[int, int]:
        """Return the number of source and target tokens of some pairs, END included."""
        starts, middles, stops = (
            self._offsets.values[2 * indices + i] for i in range(3)
        )
        sources, targets = (middles - starts).sum(), (stops - middles).sum()
        source_end, target_end = (len(indices) * each for each in self.ends)
        return int(sources) + source_end, int(targets) + target_end

    def release_pages(self) -> None:
        """Return the memory of pages that were read to the system."""
        self._tokens.release_pages()
        self._offsets.release_pages()

    def _sides(self, sides: NDArray[np.int64]) -> Side:
        starts, stops = (self._offsets.values[sides + i] for i in (0, 1))
        lengths = (stops - starts).astype(np.int64)
        before = np.cumsum(lengths) - lengths
        indices = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
        return Side(self._tokens.values[indices], lengths)

    def _side(self, side: int) -> NDArray[Any]:
        start, stop = self._offsets.values[side : side + 2]
        return self._tokens.values[start:stop]


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
                    each.first_pair, each.first_pair + each.train, each.weight
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

    @cached_property
    def dev_text(self) -> tuple[list[str], list[str]]:
        """Raw source and target lines of the validation pairs."""
        return self._lines("dev.source.txt"), self._lines("dev.target.txt")

    def _store(self, name: str, ranges: Sequence[WeightedRange] | None) -> PairStore:
        return PairStore(
            self.folder / f"{name}.tokens.npy",
            self.folder / f"{name}.offsets.npy",
            ranges,
            ends=self.facts.ends,
        )

    def _stream(self, name: str, weights: Sequence[float] | None) -> ExampleStore:
        from headwise.data.token_stream import TokenStream

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
