"""Windows of a text in batches, in an order that depends on the seed only.

Each epoch cuts the text at another offset, so that a token is not always predicted from
the same context.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headwise.data.batches import Indices, make_batch
from headwise.data.ragged_batch import Batch
from headwise.data.token_stream import TokenStream
from headwise.errors import SettingsError


class WindowOrder:
    """The windows of each training step: a pure function of (seed, epoch, step).

    A batch has as many windows as keep within ``batch_tokens``, or ``batch_pairs`` of
    them; see :class:`headwise.data.batches.TrainingOrder`, whose interface this is.
    """

    packed = False
    augmentation: None = None

    def __init__(
        self,
        store: TokenStream,
        *,
        seed: int,
        batch_tokens: int,
        batch_pairs: int | None = None,
    ) -> None:
        if seed < 0 or batch_tokens < 1:
            raise SettingsError(["seed must be 0 or more, and batch_tokens 1 or more"])
        self.store = store
        self.seed = seed
        self.batch_tokens = batch_tokens
        self._rows = batch_pairs or max(1, batch_tokens // store.window)
        self._num_batches: dict[int, int] = {}

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Indices]:
        """Yield the windows of each step of ``epoch``, from step ``start``."""
        plan = self._plan(epoch)
        self._num_batches[epoch] = -(-len(plan) // self._rows)
        for first in range(start * self._rows, len(plan), self._rows):
            yield plan[first : first + self._rows]

    def num_batches(self, epoch: int) -> int:
        """Return the number of steps of ``epoch``; epochs differ by a few."""
        if epoch not in self._num_batches:
            self._num_batches[epoch] = -(-len(self._plan(epoch)) // self._rows)
        return self._num_batches[epoch]

    def batches(self, epoch: int, *, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of ``epoch``, from step ``start``."""
        for indices in self.epoch(epoch, start=start):
            yield self.make_batch(epoch, indices)

    def make_batch(self, epoch: int, indices: Indices) -> Batch:
        """Return these windows as a batch."""
        return make_batch(self.store, indices)

    def _plan(self, epoch: int) -> Indices:
        """Return all windows of ``epoch``, shuffled.

        A range of weight w is gone through ⌊w⌋ times, each with its own shift, and then
        the rest of w decides on each window at random.
        """
        random = np.random.PCG64(np.random.SeedSequence((self.seed, epoch)))
        found = [np.empty(0, np.int64)]
        rounds = max(1, *(-int(-each.weight // 1) for each in self.store.ranges))
        for number in range(rounds):
            shifts = [
                int(random.random_raw() % self.store.window) for _ in self.store.ranges
            ]
            starts = self.store.starts(shifts)
            keys = random.random_raw(len(starts)) / 2.0**64
            stops = np.array([each.stop for each in self.store.ranges])
            weights = np.array([each.weight for each in self.store.ranges])
            weight = weights[np.searchsorted(stops, starts, side="right")]
            found.append(starts[keys < weight - number])
        windows = np.concatenate(found)
        order = np.argsort(random.random_raw(len(windows)), kind="stable")
        return windows[order]
