"""Write the files of a prepared corpus, pair by pair, and count kept and dropped."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, TextIO

import numpy as np

from headwise.data.corpus_reader import RawPair, read_pairs
from headwise.data.npy_files import NpyWriter
from headwise.data.pair_formats import TRANSLATION, PairFormat
from headwise.data.prepared import CorpusFacts, SplitFacts
from headwise.data.settings import CorpusSettings
from headwise.data.validation_split import HeldOutSources, key
from headwise.errors import DataError
from headwise.text.placeholders import mask_shared
from headwise.text.sentence_splitter import has_several_sentences
from headwise.text.tokenizer import TokenizerPair
from headwise.text.windows import windows

Outcome = Literal["train", "dev", "empty", "too_long", "held_out"]
"""Split that a pair is written to, or the reason why it is dropped."""


class CorpusWriter:
    """Context manager that tokenizes corpora into a folder."""

    def __init__(
        self,
        folder: Path,
        tokenizers: TokenizerPair,
        *,
        max_tokens: int,
        pair_format: PairFormat = TRANSLATION,
        placeholders: float = 0.0,
        seed: int = 0,
        both_directions: bool = False,
    ) -> None:
        """Open the files of all splits.

        With ``both_directions``, which needs a joint vocabulary, each training pair is
        followed by its reverse.
        ``placeholders`` is the share of training pairs that get some if they can
        (:func:`headwise.text.placeholders.mask_shared`), drawn by ``seed``.
        """
        self._format = pair_format
        self._placeholders = placeholders
        self._seed = seed
        self._both_directions = both_directions
        self._tokenizers = tokenizers
        self._max_tokens = max_tokens
        largest = max(tokenizers.source.size, tokenizers.target.size)
        dtype = np.uint16 if largest <= 2**16 else np.uint32
        self._files = ExitStack()
        self.train = _PairFiles(folder, "train", dtype, self._files)
        self.dev = _PairFiles(folder, "dev", dtype, self._files)
        self._dev_source = self._text_file(folder / "dev.source.txt")
        self._dev_target = self._text_file(folder / "dev.target.txt")
        self._dropped = self._text_file(folder / "dropped.tsv")
        self._dropped.write("file\tline\treason\tsource_tokens\ttarget_tokens\n")
        self._keys_in_dev: set[int] = set()

    def write(self, corpus: CorpusSettings, held_out: HeldOutSources) -> CorpusFacts:
        """Write a corpus: sources in ``held_out`` to dev (once), others to train."""
        outcomes: Counter[Outcome] = Counter()
        first_pair, parts = self.train.pairs, self.train.further_parts
        for pair in read_pairs(corpus):
            outcomes[self._write_pair(pair, corpus, held_out)] += 1
        return _corpus_facts(
            corpus,
            outcomes,
            first_pair,
            reverses=self._both_directions,
            further_parts=self.train.further_parts - parts,
        )

    def write_dev(self, corpus: CorpusSettings) -> CorpusFacts:
        """Write a validation corpus."""
        outcomes: Counter[Outcome] = Counter()
        for pair in read_pairs(corpus):
            outcomes[self._write_pair(pair, corpus, None)] += 1
        return _corpus_facts(corpus, outcomes, 0)

    def __enter__(self) -> CorpusWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._files.close()

    def _write_pair(
        self, pair: RawPair, corpus: CorpusSettings, held_out: HeldOutSources | None
    ) -> Outcome:
        try:
            source, target = self._format.encode(
                self._tokenizers, pair.source, pair.target
            )
        except DataError as error:
            where = " and ".join(corpus.files)
            raise DataError(f"{where}, line {pair.line:,}: {error}") from None
        parts = self._parts(source)
        outcome = self._outcome(pair, len(parts[0]), len(target), held_out)
        if outcome == "train" and len(parts) > 1:
            self.train.add_parts(parts, target)
        elif outcome == "train":
            self._add_to_train((pair.source, pair.target), (source, target))
            if self._both_directions:
                self._add_to_train((pair.target, pair.source), (target, source))
        elif outcome == "dev":
            self.dev.add_parts(parts, target)
            self._dev_source.write(f"{pair.source}\n")
            self._dev_target.write(f"{pair.target}\n")
        else:
            where = f"{corpus.source}\t{pair.line}"
            self._dropped.write(f"{where}\t{outcome}\t{len(source)}\t{len(target)}\n")
        return outcome

    def _parts(self, source: list[int]) -> list[list[int]]:
        """Return the parts that a source is divided into, the longest first."""
        if len(source) <= self._max_tokens or not self._format.cuts_long_sources:
            return [source]
        return windows(source, self._max_tokens)

    def _add_to_train(
        self, texts: tuple[str, str], rows: tuple[list[int], list[int]]
    ) -> None:
        """Add a pair, of source and target, by its texts and its tokens."""
        self.train.add(*self._with_placeholders(texts) or rows)
        if self._format is TRANSLATION:
            self.train.count_sentences(texts[0])

    def _with_placeholders(
        self, texts: tuple[str, str]
    ) -> tuple[list[int], list[int]] | None:
        """Return the tokens of a pair with placeholders; None if it has none."""
        if not self._placeholders:
            return None
        masked = mask_shared(*texts, rate=self._placeholders, seed=self._seed)
        if masked == texts:
            return None
        rows = self._format.encode(self._tokenizers, *masked)
        return rows if max(map(len, rows)) <= self._max_tokens else None

    def _outcome(
        self,
        pair: RawPair,
        source_tokens: int,
        target_tokens: int,
        held_out: HeldOutSources | None,
    ) -> Outcome:
        if pair.is_empty or not (source_tokens and target_tokens):
            return "empty"
        if max(source_tokens, target_tokens) > self._max_tokens:
            return "too_long"
        if held_out is None:
            return "dev"
        if pair.source not in held_out:
            return "train"
        before = len(self._keys_in_dev)
        self._keys_in_dev.add(key(held_out.seed, pair.source))
        return "dev" if len(self._keys_in_dev) > before else "held_out"

    def _text_file(self, path: Path) -> TextIO:
        return self._files.enter_context(path.open("w", encoding="utf-8", newline=""))


class _PairFiles:
    """Token and offset files of one split."""

    def __init__(
        self, folder: Path, name: str, dtype: type[np.generic], files: ExitStack
    ) -> None:
        tokens = NpyWriter(folder / f"{name}.tokens.npy", dtype)
        self._tokens = files.enter_context(tokens)
        offsets = NpyWriter(folder / f"{name}.offsets.npy", np.int64)
        self._offsets = files.enter_context(offsets)
        self._offsets.append([0])
        self.pairs = 0
        self.further_parts = 0
        self._source_tokens = self._target_tokens = 0
        self._longest_source = self._longest_target = 0
        self._several_sentences: int | None = None

    def count_sentences(self, source: str) -> None:
        """Count a source that was added among those with several sentences, or not."""
        before = self._several_sentences or 0
        self._several_sentences = before + has_several_sentences(source)

    def add_parts(self, sources: list[list[int]], target: list[int]) -> None:
        """Add a pair for each part of a text."""
        for source in sources:
            self.add(source, target)
        self.further_parts += len(sources) - 1

    def add(self, source: list[int], target: list[int]) -> None:
        self._tokens.append(source + target)
        end = self._tokens.size
        self._offsets.append([end - len(target), end])
        self.pairs += 1
        self._source_tokens += len(source)
        self._target_tokens += len(target)
        self._longest_source = max(self._longest_source, len(source))
        self._longest_target = max(self._longest_target, len(target))

    @property
    def facts(self) -> SplitFacts:
        return SplitFacts(
            pairs=self.pairs,
            source_tokens=self._source_tokens,
            target_tokens=self._target_tokens,
            longest_source=self._longest_source,
            longest_target=self._longest_target,
            several_sentences=self._several_sentences,
            further_parts=self.further_parts,
        )


def _corpus_facts(
    corpus: CorpusSettings,
    outcomes: Counter[Outcome],
    first_pair: int,
    *,
    reverses: bool = False,
    further_parts: int = 0,
) -> CorpusFacts:
    return CorpusFacts(
        source=corpus.source,
        target=corpus.target,
        weight=corpus.weight,
        first_pair=first_pair,
        read=outcomes.total(),
        train=outcomes["train"],
        dev=outcomes["dev"],
        empty=outcomes["empty"],
        too_long=outcomes["too_long"],
        held_out=outcomes["held_out"],
        reversed=outcomes["train"] if reverses else 0,
        further_parts=further_parts,
    )
