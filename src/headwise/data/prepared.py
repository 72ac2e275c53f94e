"""A prepared corpus: pairs of token rows in a folder, read where they lie on disk.

prepared.json                 settings, counts, lengths, fingerprint
train.tokens.npy              all tokens, source and target of a pair in turn
train.offsets.npy             where each side starts; one more for the end
dev.tokens.npy dev.offsets.npy
dev.source.txt dev.target.txt the raw text of the held-out pairs, for scores
dropped.tsv                   every pair that was left out, and why
tokenizer/                    trained on train alone
manifest.json                 sizes, SHA-256
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise import settings, storage
from headwise.data.npy_files import MappedNpyFile
from headwise.errors import DataError, ModelError, SettingsError
from headwise.text.tokenizer import TokenizerPair, open_tokenizers

FORMAT = 1
FACTS = "prepared.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusFacts:
    """What became of one corpus. ``read`` is the sum of all the counts after it."""

    source: str
    target: str | None
    weight: float
    first_pair: int
    """Index in train of its first pair; its ``train`` pairs follow one another."""
    read: int
    train: int
    dev: int
    empty: int
    too_long: int
    held_out: int
    """Left out of train because a dev pair has the same source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitFacts:
    """How much there is to learn from, or to validate on. Tokens without specials."""

    pairs: int
    source_tokens: int
    target_tokens: int
    longest_source: int
    longest_target: int

    @property
    def mean_source(self) -> float:
        """Tokens of a source, on average."""
        return self.source_tokens / max(1, self.pairs)

    @property
    def mean_target(self) -> float:
        """Tokens of a target, on average."""
        return self.target_tokens / max(1, self.pairs)


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedFacts:
    """The numbers of ``prepared.json``."""

    fingerprint: str
    seed: int
    max_tokens: int
    source_vocabulary: int
    target_vocabulary: int
    joint: bool
    train: SplitFacts
    dev: SplitFacts
    corpora: tuple[CorpusFacts, ...]
    dev_corpus: CorpusFacts | None = None


@dataclass(frozen=True, slots=True)
class WeightedRange:
    """Neighbouring pairs that an epoch takes ``weight`` times each."""

    start: int
    stop: int
    weight: float


@dataclass(frozen=True, slots=True)
class Side:
    """Rows of tokens, one after the other."""

    tokens: NDArray[Any]
    lengths: NDArray[np.int64]


class PairStore:
    """Pairs of token rows without START and END, memory-mapped."""

    def __init__(
        self, tokens: Path, offsets: Path, ranges: Sequence[WeightedRange] | None = None
    ) -> None:
        self._tokens = MappedNpyFile(tokens)
        self._offsets = MappedNpyFile(offsets)
        self._num_pairs = len(self._offsets.values) // 2
        self.ranges = tuple(ranges or [WeightedRange(0, self._num_pairs, 1.0)])
        if self._offsets.values[-1:].tolist() != [len(self._tokens.values)] or (
            self.ranges[-1].stop != self._num_pairs
        ):
            raise DataError(
                f"{offsets} does not belong to {tokens}, or to the {FACTS} beside "
                "them; prepare the corpus again"
            )

    def __len__(self) -> int:
        return self._num_pairs

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
        """Count source and target tokens of some pairs, ENDs counted."""
        starts, middles, stops = (
            self._offsets.values[2 * indices + i] for i in range(3)
        )
        sources, targets = (middles - starts).sum(), (stops - middles).sum()
        return int(sources) + len(indices), int(targets) + len(indices)

    def forget(self) -> None:
        """Give back the memory of the pages that were looked at."""
        self._tokens.release_pages()
        self._offsets.release_pages()

    def _sides(self, sides: NDArray[np.int64]) -> Side:
        starts, stops = (self._offsets.values[sides + i] for i in (0, 1))
        lengths = (stops - starts).astype(np.int64)
        before = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
        return Side(self._tokens.values[places], lengths)

    def _side(self, side: int) -> NDArray[Any]:
        start, stop = self._offsets.values[side : side + 2]
        return self._tokens.values[start:stop]


class PreparedCorpus:
    """A prepared folder, opened; made by ``PreparedCorpus.open``."""

    def __init__(self, folder: Path, facts: PreparedFacts, fields: Any) -> None:
        self.folder = folder
        self.facts = facts
        self.fields = fields
        """All of ``prepared.json``, with the settings that made the corpus."""

    @classmethod
    def open(cls, folder: Path, *, thorough: bool = False) -> PreparedCorpus:
        """Open ``folder``; every file's size is checked, if ``thorough`` its SHA-256.

        Raises ``DataError`` for a folder that is not whole or not ours.
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
            raise DataError(f"{folder / FACTS} was changed:\n{error}") from None
        return cls(folder, facts, fields)

    @cached_property
    def train(self) -> PairStore:
        """The pairs to learn from."""
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
    def dev(self) -> PairStore:
        """The held-out pairs."""
        return self._store("dev", None)

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        """What turned text into these tokens, and turns tokens back."""
        return open_tokenizers(self.folder / "tokenizer")

    @cached_property
    def dev_text(self) -> tuple[list[str], list[str]]:
        """Raw source and target lines of the held-out pairs."""
        return self._lines("dev.source.txt"), self._lines("dev.target.txt")

    def _store(self, name: str, ranges: Sequence[WeightedRange] | None) -> PairStore:
        return PairStore(
            self.folder / f"{name}.tokens.npy",
            self.folder / f"{name}.offsets.npy",
            ranges,
        )

    def _lines(self, name: str) -> list[str]:
        text = (self.folder / name).read_bytes().decode("utf-8")
        return text.split("\n")[:-1]


def _check_sizes(folder: Path) -> None:
    for name, facts in storage.read_manifest(folder)["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != facts["bytes"]:
            raise ModelError(
                f"{path} is missing or not as long as {storage.MANIFEST} says; the "
                "folder was copied in part or changed: copy or prepare it again"
            )
