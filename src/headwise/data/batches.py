"""Batches under a budget of tokens, in an order that is a function of its seed.

A pair takes one place more than its tokens on either side: END for the source, START
or END for the target. Budgets and lengths in this file count that place, and padding.

Letters used for sizes in this file:

    B  pairs in a batch    S  longest source + 1    T  longest target + 1
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.data.packed_shapes import pack_batches
from headwise.data.prepared import PairStore, Side, SplitFacts
from headwise.errors import SettingsError
from headwise.text.vocabulary import END, PAD, START, UNKNOWN

Indices = NDArray[np.int64]

BLOCK_PAIRS = 8192
"""Neighbouring pairs that always stay in one shard, so that disks read in long runs.

Around each run the system maps up to a megabyte more, so short runs cost memory.
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a model reads and what it should say, padded to the longest of each side."""

    source: Tensor
    """[B S] tokens and END, then PAD."""

    target_in: Tensor
    """[B T] START and tokens, then PAD: what the decoder has seen."""

    target_out: Tensor
    """[B T] tokens and END, then PAD: what it should say next."""

    num_source_tokens: int
    """Tokens and ENDs of ``source``, without padding."""

    num_target_tokens: int
    """Tokens and ENDs of ``target_out``, without padding: what the loss divides by."""

    indices: Tensor
    """[B] which pairs of the store these are."""

    def __len__(self) -> int:
        return len(self.source)

    @property
    def source_is_real(self) -> Tensor:
        """[B S] where ``source`` is not padding."""
        return self.source != PAD

    @property
    def target_is_real(self) -> Tensor:
        """[B T] where the target is not padding."""
        return self.target_out != PAD

    @property
    def padded_tokens(self) -> int:
        """Pairs times the longer side: what a budget of tokens is compared with."""
        return len(self) * max(self.source.shape[1], self.target_out.shape[1])

    def parts(self, count: int) -> list[Batch]:
        """Cut this batch into ``count`` of about as many pairs each."""
        if count == 1:
            return [self]
        return [
            self._rows(rows) for rows in torch.arange(len(self)).tensor_split(count)
        ]

    def deal(self, count: int) -> list[Batch]:
        """Deal out the pairs in turn, so that all get long ones; none gets nothing."""
        if count == 1:
            return [self]
        rows = torch.arange(len(self))
        return [self._rows(rows[start::count]) for start in range(count)[: len(self)]]

    def _rows(self, rows: Tensor) -> Batch:
        source, target_out = self.source[rows], self.target_out[rows]
        return Batch(
            source=source,
            target_in=self.target_in[rows],
            target_out=target_out,
            num_source_tokens=int((source != PAD).sum()),
            num_target_tokens=int((target_out != PAD).sum()),
            indices=self.indices[rows],
        )

    def to(self, device: torch.device | str) -> Batch:
        """Return this batch on ``device``."""
        return replace(
            self,
            source=self.source.to(device, non_blocking=True),
            target_in=self.target_in.to(device, non_blocking=True),
            target_out=self.target_out.to(device, non_blocking=True),
        )


def make_batch(store: PairStore, indices: Indices) -> Batch:
    """Read the pairs ``indices`` of ``store`` and pad them."""
    return _batch(*store.sides(np.asarray(indices)), indices)


class TrainingOrder:
    """Which pairs each step sees: a pure function of (seed, epoch, step).

    An epoch deals blocks of neighbouring pairs into shards by chance, so that a shard
    mixes all corpora. Within a shard, pairs are shuffled, sorted by length, cut into
    batches, and the batches shuffled. Planning reads lengths and no tokens, and holds
    one shard at a time; so memory does not grow with the corpus, and resuming at any
    step of an epoch costs only the plan.

    A batch holds as many pairs as keep B x T and B x S within ``batch_tokens``; a pair
    that alone is longer is a batch of one. With ``batch_pairs`` it holds that many
    pairs, however long: 1 makes each sentence a batch, as in the plain objective.

    With ``packed`` a shard is not sorted: a batch holds pairs of all lengths, as many
    as go into rows (:mod:`headwise.data.packed_shapes`) of ``batch_tokens`` places.
    """

    def __init__(
        self,
        store: PairStore,
        *,
        seed: int,
        batch_tokens: int,
        batch_pairs: int | None = None,
        shard_pairs: int = 131_072,
        packed: bool = False,
    ) -> None:
        _check(seed, batch_tokens, batch_pairs, shard_pairs)
        self.store = store
        self.seed = seed
        self.batch_tokens = batch_tokens
        self.batch_pairs = batch_pairs
        self.packed = packed
        self._blocks = _blocks(store)
        self._num_shards = max(1, math.ceil(self._blocks.expected.sum() / shard_pairs))
        self._num_batches: dict[tuple[int, int], int] = {}

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Indices]:
        """Yield the pairs of each step of ``epoch``, from step ``start`` of it on."""
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
        """Count the steps of ``epoch``; epochs differ by a few."""
        for number, blocks in enumerate(self._shards(epoch)):
            if (epoch, number) not in self._num_batches:
                self._plan(epoch, number, blocks)
        return sum(
            self._num_batches[epoch, number] for number in range(self._num_shards)
        )

    def batches(self, epoch: int, *, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of ``epoch``, from its step ``start`` on."""
        for indices in self.epoch(epoch, start=start):
            yield make_batch(self.store, indices)

    def _shards(self, epoch: int) -> list[Indices]:
        """Deal the blocks into shards of about equal size, by chance."""
        expected = self._blocks.expected
        chance = _random(self.seed, epoch).random_raw(len(expected))
        dealt = np.argsort(chance, kind="stable")
        before = np.cumsum(expected[dealt]) - expected[dealt]
        shards = before * self._num_shards // expected.sum()
        return [np.sort(dealt[shards == number]) for number in range(self._num_shards)]

    def _plan(self, epoch: int, shard: int, blocks: Indices) -> list[Indices]:
        """Return the batches of one shard, in the order they are taken."""
        random = _random(self.seed, epoch, shard + 1)
        indices, source, target = self._pairs(blocks, random)
        chance = random.random_raw(len(indices))
        batches = [indices[each] for each in self._cut(chance, source, target)]
        self._num_batches[epoch, shard] = len(batches)
        shuffled = np.argsort(random.random_raw(len(batches)), kind="stable")
        return [batches[index] for index in shuffled]

    def _cut(
        self, chance: NDArray[np.uint64], source: Indices, target: Indices
    ) -> list[Indices]:
        """Return which of the pairs of these lengths go into each batch."""
        if self.packed:
            order = np.argsort(chance, kind="stable")
            found = pack_batches(source[order], target[order], self.batch_tokens)
            return [order[batch] for batch in found]
        # Among equally long pairs the source counts, or it would be padded more. The
        # target does not: of small corpora, chance would have nothing left to mix.
        longest = np.maximum(source, target)
        order = np.lexsort((chance, source, longest))
        if self.batch_pairs is None:
            starts = split_by_tokens(longest[order], self.batch_tokens)
        else:
            starts = list(range(0, len(order), self.batch_pairs))
        return np.split(order, starts[1:]) if starts else []

    def _pairs(
        self, blocks: Indices, random: np.random.PCG64
    ) -> tuple[Indices, Indices, Indices]:
        """Return the pairs in ``blocks``, as often as weighed, and their lengths.

        Those are the places that the source takes and the target, END counted.
        """
        indices = [np.empty(0, np.int64)]
        sources, targets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for block in blocks:
            start, stop = self._blocks.starts[block], self._blocks.stops[block]
            whole, part = divmod(self._blocks.weights[block], 1.0)
            times = int(whole) + (_uniform(random, stop - start) < part)
            indices.append(np.repeat(np.arange(start, stop), times))
            source, target = self.store.lengths(start, stop)
            sources.append(np.repeat(source + 1, times))
            targets.append(np.repeat(target + 1, times))
        self.store.release_pages()
        return (
            np.concatenate(indices),
            np.concatenate(sources),
            np.concatenate(targets),
        )


def dev_batches(store: PairStore, batch_tokens: int) -> Iterator[Batch]:
    """Yield every pair of ``store`` once, short ones first."""
    longest = _longest(store, 0, len(store))
    order = np.argsort(longest, kind="stable")
    starts = split_by_tokens(longest[order], batch_tokens)
    for start, stop in pairwise([*starts, len(store)]):
        yield make_batch(store, order[start:stop])


def largest_batch(longest_source: int, longest_target: int, batch_tokens: int) -> Batch:
    """Make up the batch that takes most memory, to be tried before step 1.

    The lengths are those of the longest sides kept, in tokens without END.
    """
    rows = max(1, batch_tokens // (max(longest_source, longest_target) + 1))
    source, target = (
        Side(np.full(rows * longest, UNKNOWN), np.full(rows, longest))
        for longest in (longest_source, longest_target)
    )
    return _batch(source, target, np.arange(rows))


def worst_case_batches(
    facts: SplitFacts, batch_tokens: int, batch_pairs: int | None = None
) -> list[Batch]:
    """Make up batches that take most memory: of the longest pairs, and of usual ones.

    Both are as large as the settings allow, but their parts are of other sizes, for
    which an allocator may not find room in what was used before.
    """
    mean = max(1, round(max(facts.mean_source, facts.mean_target)))
    longest = facts.longest_source, facts.longest_target
    middle = (mean + max(longest)) // 2
    batches = []
    for source, target in (longest, (mean, mean), (middle, middle)):
        places = max(source, target) + 1
        tokens = batch_tokens if batch_pairs is None else batch_pairs * places
        batches.append(largest_batch(source, target, tokens))
    return batches


def split_by_tokens(longest: Indices, budget: int) -> list[int]:
    """Return where batches start, so that rows x longest stays within ``budget``.

    ``longest`` holds the padded length that each row needs, in rising order. A row
    that alone is over the budget is a batch of its own.
    """
    starts = []
    start = 0
    while start < len(longest):
        starts.append(start)
        most = max(1, budget // int(longest[start]))
        ahead = longest[start : start + most]
        padded = ahead * np.arange(1, len(ahead) + 1)
        start += max(1, int(np.searchsorted(padded, budget, side="right")))
    return starts


def _batch(sources: Side, targets: Side, indices: Indices) -> Batch:
    target = _padded(targets)
    target_in = np.roll(target, 1, axis=1)
    target_in[:, 0] = START
    target_in[target_in == END] = PAD  # nothing comes after END, so it is not read
    return Batch(
        source=torch.from_numpy(_padded(sources)),
        target_in=torch.from_numpy(target_in),
        target_out=torch.from_numpy(target),
        num_source_tokens=len(sources.tokens) + len(sources.lengths),
        num_target_tokens=len(targets.tokens) + len(targets.lengths),
        indices=torch.from_numpy(np.array(indices, dtype=np.int64)),
    )


def _padded(side: Side) -> Indices:
    """Return the rows of a side below each other, each with END after it, then PAD."""
    lengths = side.lengths
    place = np.arange(lengths.max() + 1)
    padded = np.full((len(lengths), len(place)), PAD, dtype=np.int64)
    padded[place < lengths[:, None]] = side.tokens
    padded[np.arange(len(lengths)), lengths] = END
    return padded


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Runs of neighbouring pairs that share a weight, none over ``BLOCK_PAIRS``."""

    starts: Indices
    stops: Indices
    weights: NDArray[np.float64]

    @property
    def expected(self) -> NDArray[np.float64]:
        """How many pairs an epoch takes of each, on average."""
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


def _blocks(store: PairStore) -> _Blocks:
    starts, stops, weights = [], [], []
    for each in store.ranges:
        first = np.arange(each.start, each.stop, BLOCK_PAIRS)
        starts.append(first)
        stops.append(np.minimum(first + BLOCK_PAIRS, each.stop))
        weights.append(np.full(len(first), each.weight))
    return _Blocks(*map(np.concatenate, (starts, stops, weights)))


def _longest(store: PairStore, start: int, stop: int) -> Indices:
    """Return the places that pairs take on their longer side, END counted."""
    return np.maximum(*store.lengths(start, stop)) + 1


def _random(*keys: int) -> np.random.PCG64:
    """Return a stream of random bits for ``keys``, the same with every numpy.

    Numpy promises that of raw bits and not of ``Generator``'s shuffles.
    """
    return np.random.PCG64(np.random.SeedSequence(keys))


def _uniform(random: np.random.PCG64, count: int) -> NDArray[np.float64]:
    """Return ``count`` numbers from 0 up to, and without, 1."""
    bits: NDArray[np.uint64] = random.random_raw(int(count))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
