"""CTranslate2's threads: one for each batch, or all of them for a few sentences.

Several threads that share a batch wait for one another at every matrix product, which
for small models takes longer than the products. So many sentences are cut into batches,
one per thread; only fewer sentences than threads are searched by all threads together.
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
from headwise.inference.engines.ctranslate2_processor import avx512_enabled

GREEDY_ROWS = 128
BEAM_ROWS = 384
"""Hypotheses of a batch: fewer are slower, more are no faster."""

BATCH_TOKENS = 16_384
"""Most source positions of a batch, padding included, times its hypotheses each."""

QUEUE_DEPTH = 3
"""Batches submitted per worker: the current one and the next ones.

CTranslate2 cannot cancel them: a process that ends waits for all of them.
"""

OpenedFolder = Callable[[], AbstractContextManager[Path]]


@dataclass(eq=False, slots=True, weakref_slot=True)
class Batch:
    """Sources that are searched together, by index, with a common length limit."""

    indices: Sequence[int]
    limit: int
    submit: Callable[[], Sequence[Any]]
    """Submits it to CTranslate2, which returns a future per source at once."""

    results: Sequence[Any] | None = None
    process: int = 0

    def done(self) -> bool:
        """Return whether the search has ended: all sources of a batch end together."""
        return self.results is not None and bool(self.results[-1].done())


class Workers:
    """CTranslate2 translators of an export, opened on demand, and a queue of batches.

    With ``alone``, each sentence is a batch of its own, searched by one thread.
    """

    def __init__(
        self, folder: OpenedFolder, precision: str, threads: int, *, alone: bool = False
    ) -> None:
        self.folder = folder
        self.precision = precision
        self.threads = threads
        self.alone = alone
        self._process = os.getpid()
        self._in_use = False
        self._queue: deque[ref[Batch]] = deque()
        self._submit_lock = Lock()
        self._opened = {self.threads: self._open(self.threads, 1)}

    def translator(self, num_sentences: int) -> Any:
        """Return the translator for a search of so many sentences.

        A forked process opens its own: the copy of its parent's would wait for threads
        that were not copied. As OpenMP would too, it has a single thread.
        """
        self._after_fork()
        many = self.alone or num_sentences >= self.threads
        workers = self.threads if many else 1
        if workers not in self._opened:
            if not self._in_use:
                self._opened.clear()  # the first one was never used
            self._opened[workers] = self._open(workers, self.threads // workers)
        self._in_use = True
        return self._opened[workers]

    def batches(self, lengths: Sequence[int], beam: int) -> Iterator[list[int]]:
        """Cut the indices of sentences into batches of similar lengths.

        The longest come first, so that all threads end at about the same time.
        """
        rows = GREEDY_ROWS if beam == 1 else BEAM_ROWS
        share = -(-len(lengths) // self.threads)
        limit = 1 if self.alone else max(1, min(rows // beam, share))
        order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
        first = 0
        while first < len(order):
            longest = (lengths[order[first]] + 1) * beam
            size = max(1, min(limit, BATCH_TOKENS // longest))
            yield order[first : first + size]
            first += size

    def enqueue(self, batch: Batch) -> None:
        """Queue a batch; dropping the last reference to it cancels it."""
        self._after_fork()
        self._queue.append(ref(batch))
        self.fill_queues()

    def fill_queues(self) -> None:
        """Submit as many queued batches as workers soon need; call it now and then."""
        while self._queue and self._num_active() < QUEUE_DEPTH * self.threads:
            try:
                batch = self._queue.popleft()()
            except IndexError:  # another thread was quicker
                return
            if batch is not None:
                self.submit(batch)

    def results(self, batch: Batch) -> Iterator[tuple[int, Any]]:
        """Wait for a batch, queued or not; yield (index, result) for each source."""
        self._after_fork()
        self.submit(batch)
        self.fill_queues()
        assert batch.results is not None
        for index, each in zip(batch.indices, batch.results, strict=True):
            yield index, each.result()

    def submit(self, batch: Batch) -> None:
        """Submit a batch to the workers now, unless that was done."""
        with self._submit_lock:
            if batch.results is None or batch.process != os.getpid():
                batch.results, batch.process = batch.submit(), os.getpid()

    def _num_active(self) -> int:
        return sum(each.num_active_batches for each in [*self._opened.values()])

    def _after_fork(self) -> None:
        """Drop the parent's translators in a forked process, which has no threads."""
        if self._process != os.getpid():
            self._process, self._opened, self.threads = os.getpid(), {}, 1
            self._queue, self._submit_lock = deque(), Lock()

    def _open(self, workers: int, threads_each: int) -> Any:
        with avx512_enabled(), self.folder() as folder:
            translator = _open_translator(folder, self.precision, workers, threads_each)
        os.register_at_fork(after_in_child=_leak(translator))
        return translator


def _open_translator(
    folder: Path, precision: str, workers: int, threads_each: int
) -> Any:
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
            max_queued_batches=-1,  # unlimited: ``fill_queues`` limits them
        )
    except (RuntimeError, ValueError) as error:
        raise ResourceError(
            f"ctranslate2 {ctranslate2.__version__} does not open "
            f"{folder}: {error}; --engine torch would do"
        ) from None


def _leak(translator: Any) -> Callable[[], None]:
    """Return a function that keeps a translator from being deleted in a forked process.

    Its destructor would wait forever for threads that were not copied.
    """
    reference = ref(translator)

    def add_reference() -> None:
        if (alive := reference()) is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(alive))

    return add_reference
