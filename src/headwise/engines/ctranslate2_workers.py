"""CTranslate2's own threads: one for each batch, or all of them for a few sentences.

Several threads at one batch wait for one another at every product, which for small
models takes longer than the products. So many sentences are cut into batches, and each
thread works at one; only where there are fewer sentences than threads do all of them
work at the same.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from headwise.engines.ctranslate2_processor import wide_instructions
from headwise.errors import ResourceError, UsageError

GREEDY_ROWS = 64
BEAM_ROWS = 96
"""Hypotheses that a batch holds: more no longer fit into the cache of a processor."""

BATCH_TOKENS = 4096
"""Source positions of a batch at most, padding counted, for each of its hypotheses."""

OpenedFolder = Callable[[], AbstractContextManager[Path]]


class Workers:
    """The translators of an export, opened when they are needed."""

    def __init__(self, folder: OpenedFolder, precision: str, threads: int) -> None:
        self.folder = folder
        self.precision = precision
        self.threads = threads
        self._process = os.getpid()
        self._asked = False
        self._opened = {self.threads: self._open(self.threads, 1)}

    def translator(self, num_sentences: int) -> Any:
        """Return the translator for so many sentences at a time.

        A process that was forked has none yet: the copy of its parent's would wait for
        threads that were not copied. A second thread of OpenMP would wait for those of
        its parent, so there is one.
        """
        if self._process != os.getpid():
            self._process, self._opened, self.threads = os.getpid(), {}, 1
        workers = self.threads if num_sentences >= self.threads else 1
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
        most = max(1, min(rows // beam, share))
        order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
        first = 0
        while first < len(order):
            longest = (lengths[order[first]] + 1) * beam
            size = max(1, min(most, BATCH_TOKENS // longest))
            yield order[first : first + size]
            first += size

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
            max_queued_batches=-1,  # what is read ahead is bounded elsewhere
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
    there = weakref.ref(translator)

    def keep() -> None:
        if (kept := there()) is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    return keep
