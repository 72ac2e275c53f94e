"""Batches of at most so many tokens, in an order that depends on the seed only.

Lengths in this file include one special token per side: END for the source, START or
END for the target. Batch sizes count padding too: a batch of B pairs counts as B times
its longest side, as the backends for PyTorch pad it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.data.example_stores import ExampleStore, PairedExampleStore, Side
from headwise.data.prepared import SplitFacts
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.data.random_bits import to_uniform
from headwise.data.sequence_packing import split_into_packed_batches
from headwise.data.text_augmentation import TextAugmentation
from headwise.data.token_budget import split_by_tokens
from headwise.errors import SettingsError
from headwise.text.vocabulary import END, SPECIALS

Indices = NDArray[np.int64]

BLOCK_PAIRS = 8192
"""Consecutive pairs that stay in one shard, so that the disk is read sequentially.

The system maps up to a megabyte around each block, so small blocks cost memory.
"""


ANY_TOKEN = len(SPECIALS)
"""A token that every vocabulary has, and that every task can predict."""


def make_batch(store: ExampleStore, indices: Indices) -> Batch:
    """Return the examples ``indices`` of ``store`` as a batch."""
    return _batch(*store.sides(np.asarray(indices)), indices, store.ends)


class TrainingOrder:
    """The pairs of each training step: a pure function of (seed, epoch, step).

    Each epoch assigns blocks of consecutive pairs to shards at random, so that a shard
    mixes all corpora. Within a shard, pairs are shuffled, sorted by length, split into
    batches, and the batches shuffled. Only lengths are read for this, one shard at a
    time: memory does not grow with the corpus, and resuming at any step is cheap.

    A batch has as many pairs as keep each side, padded, within ``batch_tokens``; a
    longer pair is a batch of its own. With ``batch_pairs`` it has that many pairs,
    whatever their lengths.

    With ``packed`` a shard is not sorted: a batch has pairs of all lengths, as many as
    can be packed (:mod:`headwise.data.sequence_packing`) into ``batch_tokens``.

    With ``augmentation`` the texts of a batch are drawn when it is made, and planned by
    the length that each may have.
    """

    def __init__(
        self,
        store: PairedExampleStore,
        *,
        seed: int,
        batch_tokens: int,
        batch_pairs: int | None = None,
        shard_pairs: int = 131_072,
        packed: bool = False,
        augmentation: TextAugmentation | None = None,
    ) -> None:
        _check(seed, batch_tokens, batch_pairs, shard_pairs)
        self.store = store
        self.seed = seed
        self.batch_tokens = batch_tokens
        self.batch_pairs = batch_pairs
        self.packed = packed
        self.augmentation = augmentation
        self._blocks = _blocks(store)
        self._num_shards = max(1, math.ceil(self._blocks.expected.sum() / shard_pairs))
        self._num_batches: dict[tuple[int, int], int] = {}

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Indices]:
        """Yield the pair indices of each step of ``epoch``, from step ``start``."""
        for number, blocks in enumerate(self._shards(epoch)):
            known = self._num_batches.get((epoch, number))
            if known is not None and known <= start:
                start -= known
                continue
            plan = self._plan(epoch, number, blocks)
            yield from plan[start:]
            start = max(0, start - len(plan))
            self.store.release_pages()

    def num_batches(self, epoch: int) -> int:
        """Return the number of steps of ``epoch``; epochs differ by a few."""
        for number, blocks in enumerate(self._shards(epoch)):
            if (epoch, number) not in self._num_batches:
                self._plan(epoch, number, blocks)
        return sum(
            self._num_batches[epoch, number] for number in range(self._num_shards)
        )

    def batches(self, epoch: int, *, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of ``epoch``, from step ``start``."""
        for indices in self.epoch(epoch, start=start):
            yield self.make_batch(epoch, indices)

    def make_batch(self, epoch: int, indices: Indices) -> Batch:
        """Return the pairs ``indices`` as a batch of ``epoch``."""
        if self.augmentation is None:
            return make_batch(self.store, indices)
        sides = self.augmentation.sides(epoch, np.asarray(indices))
        batch = _batch(*sides, indices, self.store.ends)
        if not self.augmentation.keeps_mean:
            return batch
        _, num_targets = self.store.count_tokens(np.asarray(indices))
        return replace(batch, weight=num_targets / batch.num_target_tokens)

    def _shards(self, epoch: int) -> list[Indices]:
        """Assign the blocks to shards of about equal size, at random."""
        expected = self._blocks.expected
        keys = seeded_random(self.seed, epoch).random_raw(len(expected))
        shuffled = np.argsort(keys, kind="stable")
        before = np.cumsum(expected[shuffled]) - expected[shuffled]
        shards = before * self._num_shards // expected.sum()
        return [
            np.sort(shuffled[shards == number]) for number in range(self._num_shards)
        ]

    def _plan(self, epoch: int, shard: int, blocks: Indices) -> list[Indices]:
        """Return the batches of one shard, in the order of training."""
        random = seeded_random(self.seed, epoch, shard + 1)
        indices, source, target = self._pairs(epoch, blocks, random)
        keys = random.random_raw(len(indices))
        batches = [indices[each] for each in self._split(keys, source, target)]
        self._num_batches[epoch, shard] = len(batches)
        shuffled = np.argsort(random.random_raw(len(batches)), kind="stable")
        return [batches[index] for index in shuffled]

    def _split(
        self, keys: NDArray[np.uint64], source: Indices, target: Indices
    ) -> list[Indices]:
        """Split pairs of these lengths into batches, shuffled by random ``keys``."""
        if self.packed:
            order = np.argsort(keys, kind="stable")
            found = split_into_packed_batches(
                source[order], target[order], self.batch_tokens
            )
            return [order[batch] for batch in found]
        # Pairs of equal length are sorted by their source, to reduce padding, but not
        # by their target, which would leave nothing to shuffle in small corpora.
        longest = np.maximum(source, target)
        order = np.lexsort((keys, source, longest))
        if self.batch_pairs is None:
            starts = split_by_tokens(longest[order], self.batch_tokens)
        else:
            starts = list(range(0, len(order), self.batch_pairs))
        return np.split(order, starts[1:]) if starts else []

    def _pairs(
        self, epoch: int, blocks: Indices, random: np.random.PCG64
    ) -> tuple[Indices, Indices, Indices]:
        """Return indices, source and target lengths of the pairs in ``blocks``.

        Pairs are repeated by weight; lengths include END.
        """
        indices = [np.empty(0, np.int64)]
        sources, targets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for block in blocks:
            start, stop = self._blocks.starts[block], self._blocks.stops[block]
            whole, part = divmod(self._blocks.weights[block], 1.0)
            times = int(whole) + (uniform(random, stop - start) < part)
            indices.append(np.repeat(np.arange(start, stop), times))
            source, target = self._lengths(epoch, start, stop)
            sources.append(np.repeat(source + 1, times))
            targets.append(np.repeat(target + 1, times))
        self.store.release_pages()
        return (
            np.concatenate(indices),
            np.concatenate(sources),
            np.concatenate(targets),
        )

    def _lengths(self, epoch: int, start: int, stop: int) -> tuple[Indices, Indices]:
        if self.augmentation is None:
            return self.store.lengths(start, stop)
        return self.augmentation.planned_lengths(epoch, start, stop)


def dev_batches(store: ExampleStore, batch_tokens: int) -> Iterator[Batch]:
    """Yield every example of ``store`` once, in batches, shortest first."""
    longest = _longest(store, 0, len(store))
    order = np.argsort(longest, kind="stable")
    starts = split_by_tokens(longest[order], batch_tokens)
    for start, stop in pairwise([*starts, len(store)]):
        yield make_batch(store, store.indices(order[start:stop]))


def largest_batch(
    longest_source: int,
    longest_target: int,
    batch_tokens: int,
    batch_pairs: int | None = None,
    ends: tuple[bool, bool] = (True, True),
    patch_values: int | None = None,
) -> Batch:
    """Return a dummy batch of the largest size, to test memory before step 1.

    It has ``batch_pairs`` rows; None: as many as ``batch_tokens`` allow. The lengths
    are of the longest sides in the corpus, in tokens without END; ``ends`` says which
    sides it follows. Of pictures a source token is a patch, of ``patch_values``
    numbers.
    """
    rows = batch_pairs
    if rows is None:
        rows = max(1, batch_tokens // (max(longest_source, longest_target) + 1))
    source, target = (
        Side(np.full(rows * longest, ANY_TOKEN), np.full(rows, longest))
        for longest in (longest_source, longest_target)
    )
    if patch_values is not None:
        patches = np.zeros((rows * longest_source, patch_values), np.uint8)
        source = replace(source, tokens=patches)
    return _batch(source, target, np.arange(rows), ends)


def worst_case_batches(
    facts: SplitFacts,
    batch_tokens: int,
    batch_pairs: int | None = None,
    ends: tuple[bool, bool] = (True, True),
    patch_values: int | None = None,
) -> list[Batch]:
    """Return dummy batches that need most memory: of long, average and middle pairs.

    All are as large as the settings allow, but tensors differ in size, so that the
    allocator may not be able to reuse memory.
    """
    mean = max(1, round(max(facts.mean_source, facts.mean_target)))
    longest = facts.longest_source, facts.longest_target
    middle = (mean + max(longest)) // 2
    batches = []
    for source, target in (longest, (mean, mean), (middle, middle)):
        if not ends[1]:  # such as labels, of which a source has one
            target = min(target, facts.longest_target)
        batches.append(
            largest_batch(source, target, batch_tokens, batch_pairs, ends, patch_values)
        )
    return batches


def _batch(
    sources: Side, targets: Side, indices: Indices, ends: tuple[bool, bool]
) -> Batch:
    source_end, target_end = ends
    return Batch(
        source=_ragged(sources, end=source_end),
        target=_ragged(targets, end=target_end),
        indices=torch.from_numpy(np.array(indices, dtype=np.int64)),
    )


def _ragged(side: Side, *, end: bool) -> RaggedTokens:
    """Return one side of a batch; with ``end``, END follows each sequence."""
    if not end:
        is_patches = side.tokens.ndim > 1
        tokens = side.tokens if is_patches else side.tokens.astype(np.int64)
        return RaggedTokens.from_lengths(
            torch.from_numpy(tokens),
            torch.from_numpy(side.lengths),
        )
    ends = np.cumsum(side.lengths)
    tokens = np.insert(side.tokens.astype(np.int64), ends, END)
    return RaggedTokens.from_lengths(
        torch.from_numpy(tokens), torch.from_numpy(side.lengths + 1)
    )


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of up to ``BLOCK_PAIRS`` consecutive pairs of the same weight."""

    starts: Indices
    stops: Indices
    weights: NDArray[np.float64]

    @property
    def expected(self) -> NDArray[np.float64]:
        """Mean number of pairs per epoch of each block."""
        return (self.stops - self.starts) * self.weights


def _check(
    seed: int, batch_tokens: int, batch_pairs: int | None, shard_pairs: int
) -> None:
    problems = [
        f"{name} must be at least {least}, not {value}"
        for name, value, least in (
            ("seed", seed, 0),
            ("batch_tokens", batch_tokens, 1),
            ("batch_pairs", 1 if batch_pairs is None else batch_pairs, 1),
            ("shard_pairs", shard_pairs, 1),
        )
        if value < least
    ]
    if problems:
        raise SettingsError(problems)


def _blocks(store: PairedExampleStore) -> _Blocks:
    starts, stops, weights = [], [], []
    for each in store.ranges:
        first = np.arange(each.start, each.stop, BLOCK_PAIRS)
        starts.append(first)
        stops.append(np.minimum(first + BLOCK_PAIRS, each.stop))
        weights.append(np.full(len(first), each.weight))
    return _Blocks(*map(np.concatenate, (starts, stops, weights)))


def _longest(store: ExampleStore, start: int, stop: int) -> Indices:
    """Return the longer side of each pair, END included."""
    return np.maximum(*store.lengths(start, stop)) + 1


def seeded_random(*keys: int) -> np.random.PCG64:
    """Return a generator seeded by ``keys``, the same with every version of numpy.

    numpy guarantees that for raw bits, not for the shuffles of ``Generator``.
    """
    return np.random.PCG64(np.random.SeedSequence(keys))


def uniform(random: np.random.PCG64, count: int) -> NDArray[np.float64]:
    """Return ``count`` uniform numbers in [0, 1)."""
    bits: NDArray[np.uint64] = random.random_raw(int(count))
    return to_uniform(bits)
