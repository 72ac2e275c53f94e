"""CTranslate2's own threads: one for each batch, or all of them for a few sentences.

Several threads at one batch wait for one another at every product, which for small
models takes longer than the products. So many sentences are cut into batches, and each
thread works at one; only where there are fewer sentences than threads do all of them
work at the same.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import ref

from headwise.errors import ResourceError, UsageError
from headwise.inference.engines.ctranslate2_processor import wide_instructions

GREEDY_ROWS = 128
BEAM_ROWS = 96
"""Hypotheses that a batch holds: fewer cost time, more bring none."""

BATCH_TOKENS = 4096
"""Source positions of a batch at most, padding counted, for each of its hypotheses."""

QUEUED = 3
"""Batches that each worker has been given: one to work at and the next ones.

CTranslate2 ends only when all of them are done, also where nobody wants them any more.
"""

OpenedFolder = Callable[[], AbstractContextManager[Path]]


@dataclass(eq=False, slots=True, weakref_slot=True)
class Batch:
    """Sources that are searched together, by number, with the limit for all of them."""

    numbers: Sequence[int]
    limit: int
    give: Callable[[], Sequence[Any]]
    """Hands it to CTranslate2, which returns at once with results to wait for."""

    results: Sequence[Any] | None = None
    process: int = 0

    def ready(self) -> bool:
        """Tell whether the search has ended, which it does for all sources at once."""
        return self.results is not None and bool(self.results[-1].done())


class Workers:
    """The translators of an export, opened when they are needed.

    With ``alone``, each sentence is a batch of its own, and has one thread.
    """

    def __init__(
        self, folder: OpenedFolder, precision: str, threads: int, *, alone: bool = False
    ) -> None:
        self.folder = folder
        self.precision = precision
        self.threads = threads
        self.alone = alone
        self._process = os.getpid()
        self._asked = False
        self._waiting: deque[ref[Batch]] = deque()
        self._one_at_a_time = Lock()
        self._opened = {self.threads: self._open(self.threads, 1)}

    def translator(self, num_sentences: int) -> Any:
        """Return the translator for so many sentences at a time.

        A process that was forked has none yet: the copy of its parent's would wait for
        threads that were not copied. A second thread of OpenMP would wait for those of
        its parent, so there is one.
        """
        self._after_fork()
        many = self.alone or num_sentences >= self.threads
        workers = self.threads if many else 1
        if workers not in self._opened:
            if not self._asked:
                self._opened.clear()  # nobody had a use for that one
            self._opened[workers] = self._open(workers, self.threads // workers)
        self._asked = True
        return self._opened[workers]

    def batches(self, lengths: Sequence[int], beam: int) -> Iterator[list[int]]:
        """Cut sentences of these lengths, by number, into batches of similar ones.

        The longest come first, so that the threads end at about the same time.
        """
        rows = GREEDY_ROWS if beam == 1 else BEAM_ROWS
        share = -(-len(lengths) // self.threads)
        most = 1 if self.alone else max(1, min(rows // beam, share))
        order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
        first = 0
        while first < len(order):
            longest = (lengths[order[first]] + 1) * beam
            size = max(1, min(most, BATCH_TOKENS // longest))
            yield order[first : first + size]
            first += size

    def add(self, batch: Batch) -> None:
        """Let a batch be searched when its turn comes; who lets it go wants it not."""
        self._after_fork()
        self._waiting.append(ref(batch))
        self.go_on()

    def go_on(self) -> None:
        """Give the workers what they can soon begin; to be called now and then."""
        while self._waiting and self._num_given() < QUEUED * self.threads:
            try:
                batch = self._waiting.popleft()()
            except IndexError:  # another thread was quicker
                return
            if batch is not None:
                self.give(batch)

    def results(self, batch: Batch) -> Iterator[tuple[int, Any]]:
        """Wait for a batch, whether or not its turn came; yield result by number."""
        self._after_fork()
        self.give(batch)
        self.go_on()
        assert batch.results is not None
        for number, each in zip(batch.numbers, batch.results, strict=True):
            yield number, each.result()

    def give(self, batch: Batch) -> None:
        """Hand it to the workers now, whether or not its turn came."""
        with self._one_at_a_time:
            if batch.results is None or batch.process != os.getpid():
                batch.results, batch.process = batch.give(), os.getpid()

    def _num_given(self) -> int:
        return sum(each.num_active_batches for each in [*self._opened.values()])

    def _after_fork(self) -> None:
        """Forget what is the parent's, whose threads were not copied."""
        if self._process != os.getpid():
            self._process, self._opened, self.threads = os.getpid(), {}, 1
            self._waiting, self._one_at_a_time = deque(), Lock()

    def _open(self, workers: int, threads_each: int) -> Any:
        with wide_instructions(), self.folder() as folder:
            opened = _opened(folder, self.precision, workers, threads_each)
        os.register_at_fork(after_in_child=_never_deleted(opened))
        return opened


def _opened(folder: Path, precision: str, workers: int, threads_each: int) -> Any:
    try:
        import ctranslate2
    except (ImportError, OSError) as error:
        raise UsageError(
            f"the package ctranslate2 is installed and cannot be used here "
            f"({error}); install it again, or --engine torch"
        ) from None
    try:
        return ctranslate2.Translator(
            str(folder),
            compute_type="int8" if precision == "int8" else "float32",
            inter_threads=workers,
            intra_threads=threads_each,
            max_queued_batches=-1,  # how many there are is our own affair
        )
    except (RuntimeError, ValueError) as error:
        raise ResourceError(
            f"ctranslate2 {ctranslate2.__version__} does not open "
            f"{folder}: {error}; --engine torch would do"
        ) from None


def _never_deleted(translator: Any) -> Callable[[], None]:
    """Return what keeps it in a forked process, where its deletion would not end.

    It waits for its threads, and these were not copied.
    """
    there = ref(translator)

    def keep() -> None:
        if (kept := there()) is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    return keep
