"""Other segmentations and noisy texts for training, drawn anew in each epoch.

Subword regularisation (Kudo 2018; BPE-dropout, Provilkov et al. 2020) shows a model
other segmentations of the same sentence, and noise (:mod:`headwise.data.source_noise`)
other spellings. A prepared corpus holds tokens, whose text is what their tokenizer
decodes; it is changed and encoded again when a batch is loaded.

What is drawn is a function of (seed, epoch, index of the pair): the same in any batch,
process or thread, and in a run that was resumed.

Batches are planned before their texts are drawn, by a length that each side may have
at most: L tokens become up to g·L + c·√L. The growth g and the margin c are measured on
some pairs of the corpus, so that nearly all segmentations fit. One that does not gives
way to the most probable one, so that no batch exceeds its budget.

Letters used for sizes in this file: N pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwise.data.example_stores import PairStore, Side
from headwise.data.prepared import PreparedCorpus, SplitFacts
from headwise.data.random_bits import random_bits, to_uniform
from headwise.data.segmentations import Growth, SideTexts
from headwise.data.source_noise import (
    CHANGEABLE,
    Case,
    Change,
    NoiseSettings,
    changed_pair,
)
from headwise.text.normalization import Symbols
from headwise.text.sentencepiece_tokenizer import SentencePieceTokenizer
from headwise.text.settings import TextSettings, TokenizerName
from headwise.text.subword_sampling import SubwordSampler, subword_sampler
from headwise.text.tokenizer import Tokenizer

Indices = NDArray[np.int64]

MEASURED_PAIRS = 1000
"""Pairs of the corpus on which growth and margin are measured."""

CASES: tuple[Case | None, ...] = (None, "upper", "title", "lower")
TYPOS = 4
PUNCTUATION = 8
"""A change as a number: the index of its case, and these added for what it has."""

STREAMS = ("case", "typos", "punctuation", "letters", "source", "target")
"""What random numbers are drawn for, each with a stream of its own."""


class TextAugmentation:
    """Draws the texts of training pairs anew in each epoch.

    ``rates`` are those that the sides are sampled with, or None
    (:mod:`headwise.text.subword_sampling`). With
    ``keeps_mean`` a batch gets the weight (:class:`headwise.data.ragged_batch.Batch`)
    that makes its summed loss, over the target tokens in the corpus, the mean over
    those that were drawn. A pair that an epoch takes several times is the same each
    time.
    """

    def __init__(
        self,
        corpus: PreparedCorpus,
        *,
        seed: int,
        rates: tuple[float | None, float | None],
        noise: NoiseSettings,
        keeps_mean: bool = True,
    ) -> None:
        assert isinstance(corpus.train, PairStore)
        tokenizers = corpus.tokenizers
        text = tokenizers.settings
        self.keeps_mean = keeps_mean
        self._seed = seed
        self._store = corpus.train
        self._max_tokens = corpus.facts.max_tokens
        self._noise = noise
        self._target_may_change = noise.change_target and text.target_kind in CHANGEABLE
        self._symbols = Symbols(text.all_symbols)
        self._sides = (
            _side(tokenizers.source, text.source_kind, rates[0], text),
            _side(tokenizers.target, text.target_kind, rates[1], text),
        )

    def sides(self, epoch: int, indices: Indices) -> tuple[Side, Side]:
        """Return sources and targets of some pairs as ``epoch`` has them."""
        stored = self._store.sides(indices)
        drawn = self._draw(self._seed, epoch, indices)
        limits = self._planned(stored[0].lengths, stored[1].lengths, drawn.changes)
        rows = self._encode(stored, drawn, limits)
        source, target = (_joined([row[side] for row in rows]) for side in (0, 1))
        return source, target

    def planned_lengths(
        self, epoch: int, start: int, stop: int
    ) -> tuple[Indices, Indices]:
        """Return the most source and target tokens of pairs ``start`` to ``stop``.

        They are known without reading tokens.
        """
        changes = self._changes(self._seed, epoch, np.arange(start, stop))
        source, target = self._planned(*self._store.lengths(start, stop), changes)
        return source, target

    def planned_facts(self, facts: SplitFacts) -> SplitFacts:
        """Return the counts of the training set by the most tokens of each text."""
        possible = np.array([*self._growth])
        longest_source, longest_target = self._planned(
            np.full(len(possible), facts.longest_source),
            np.full(len(possible), facts.longest_target),
            possible,
        )
        mean_source, mean_target = self._planned(
            np.array([facts.mean_source]),
            np.array([facts.mean_target]),
            np.array([0]),
        )
        return replace(
            facts,
            source_tokens=facts.pairs * int(mean_source[0]),
            target_tokens=facts.pairs * int(mean_target[0]),
            longest_source=int(longest_source.max()),
            longest_target=int(longest_target.max()),
        )

    @property
    def growth(self) -> tuple[float, float]:
        """Mean tokens of sources and targets per token of the corpus, without noise."""
        source, target = self._growth[0]
        return source.factor, target.factor

    def _draw(self, seed: int, epoch: int, indices: Indices) -> _Drawn:
        letters, source, target = (
            random_bits(indices, seed, epoch, STREAMS.index(name)).tolist()
            for name in ("letters", "source", "target")
        )
        seeds = list(zip(source, target, strict=True))
        return _Drawn(self._changes(seed, epoch, indices), letters, seeds)

    def _changes(self, seed: int, epoch: int, indices: Indices) -> Indices:
        """Return the number of the change of each pair [N]."""
        noise = self._noise
        changes = np.zeros(len(indices), np.int64)
        if not noise.is_active:
            return changes
        case, typos, punctuation = (
            to_uniform(random_bits(indices, seed, epoch, STREAMS.index(name)))
            for name in ("case", "typos", "punctuation")
        )
        bounds = np.cumsum(noise.case_probabilities)
        drawn = np.searchsorted(bounds, case, side="right") + 1
        changes += np.where(drawn < len(CASES), drawn, 0)
        changes += TYPOS * (typos < noise.typos)
        return changes + PUNCTUATION * (punctuation < noise.final_punctuation)

    def _encode(
        self,
        stored: tuple[Side, Side],
        drawn: _Drawn,
        limits: tuple[Indices, Indices],
    ) -> list[tuple[list[int], list[int]]]:
        """Return the rows of some pairs, none longer than its limit.

        But one that is longer in the corpus is returned as it is there.
        """
        sources, targets = map(_split, stored)
        return [
            self._pair((source, target), *each)
            for source, target, *each in zip(
                sources,
                targets,
                drawn.changes.tolist(),
                drawn.letters,
                drawn.seeds,
                zip(*(each.tolist() for each in limits), strict=True),
                strict=True,
            )
        ]

    def _pair(
        self,
        stored: tuple[list[int], list[int]],
        change: int,
        letters: int,
        seeds: tuple[int, int],
        limits: tuple[int, int],
    ) -> tuple[list[int], list[int]]:
        found = (
            self._changed(stored, change, letters, seeds, limits) if change else None
        )
        if found is not None:
            return found
        source, target = self._sides
        return (
            source.row(stored[0], seeds[0], limits[0]),
            target.row(stored[1], seeds[1], limits[1]),
        )

    def _changed(
        self,
        stored: tuple[list[int], list[int]],
        number: int,
        letters: int,
        seeds: tuple[int, int],
        limits: tuple[int, int],
    ) -> tuple[list[int], list[int]] | None:
        """Return the rows of changed texts; None if one of them cannot be used."""
        change = _change(number)
        changes_target = self._target_may_change and change.changes_target
        source, target = self._sides
        before = source.text(stored[0])
        answer_before = target.text(stored[1]) if changes_target else None
        if before is None or (changes_target and answer_before is None):
            return None
        text, answer = changed_pair(
            before, answer_before, change, seed=letters, symbols=self._symbols
        )
        if answer == answer_before:
            reply: list[int] | None = target.row(stored[1], seeds[1], limits[1])
        else:
            assert answer is not None
            reply = target.encoded(answer, seeds[1], limits[1])
        found = source.encoded(text, seeds[0], limits[0])
        return None if found is None or reply is None else (found, reply)

    def _planned(
        self, source: NDArray[np.generic], target: NDArray[np.generic], changes: Indices
    ) -> tuple[Indices, Indices]:
        """Return the most tokens of texts that are so long in the corpus."""
        changes = changes % PUNCTUATION  # without it a text is no longer
        found = []
        for side, lengths in enumerate((source, target)):
            exact = lengths.astype(np.float64)
            for change in np.unique(changes).tolist():
                rows = changes == change
                exact[rows] = self._growth[change][side].applied_to(exact[rows])
            most = np.minimum(np.ceil(exact).astype(np.int64), self._max_tokens)
            found.append(np.maximum(most, np.ceil(lengths).astype(np.int64)))
        return found[0], found[1]

    @cached_property
    def _growth(self) -> dict[int, tuple[Growth, Growth]]:
        """The growth of both sides under each change that may be drawn."""
        count = min(len(self._store), MEASURED_PAIRS)
        indices = np.arange(count) * len(self._store) // count
        no_limit = np.full(count, np.iinfo(np.int64).max)
        drawn = self._draw(0, 0, indices)
        stored = self._store.sides(indices)
        found = {}
        for change in self._possible_changes():
            forced = replace(drawn, changes=np.full(count, change))
            rows = self._encode(stored, forced, (no_limit, no_limit))
            source, target = (
                Growth.measured(stored[side].lengths, [len(row[side]) for row in rows])
                for side in (0, 1)
            )
            found[change] = (source, target)
        self._store.release_pages()
        return found

    def _possible_changes(self) -> list[int]:
        """Return the numbers of all changes that may be drawn, without punctuation."""
        cases = [0] + [
            number
            for number, each in enumerate(self._noise.case_probabilities, start=1)
            if each
        ]
        typos = [0, TYPOS] if self._noise.typos else [0]
        return [case + each for case in cases for each in typos]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What was drawn for some pairs."""

    changes: Indices
    letters: Sequence[int]
    """Seeds of typos."""

    seeds: Sequence[tuple[int, int]]
    """Seeds of the segmentations of source and target."""


def _side(
    tokenizer: Tokenizer, kind: TokenizerName, rate: float | None, text: TextSettings
) -> SideTexts:
    sampler: SubwordSampler | None = None
    if rate is not None:
        assert isinstance(tokenizer, SentencePieceTokenizer)
        sampler = subword_sampler(kind, tokenizer, rate, text)
    return SideTexts(tokenizer, sampler)


def _change(number: int) -> Change:
    return Change(
        case=CASES[number % TYPOS],
        has_typos=bool(number & TYPOS),
        drops_punctuation=bool(number & PUNCTUATION),
    )


def _split(side: Side) -> list[list[int]]:
    tokens = side.tokens.tolist()
    stops = np.cumsum(side.lengths).tolist()
    starts = [0, *stops[:-1]]
    return [tokens[start:stop] for start, stop in zip(starts, stops, strict=True)]


def _joined(rows: Sequence[list[int]]) -> Side:
    tokens = [token for row in rows for token in row]
    return Side(np.array(tokens, np.int64), np.array([*map(len, rows)], np.int64))
