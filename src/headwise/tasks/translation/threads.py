"""Batches of a search side by side, each on one core.

Threads that share every product wait for one another at the end of each, and those of a
small model are short. Threads with batches of their own wait for nobody, hold the
interpreter only between products, and share the weights.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch

from headwise.decoding.next_token import Choosing, WritingAhead
from headwise.errors import HeadwiseError

B = TypeVar("B")
R = TypeVar("R")

LOOK_UP = 0.1
"""Seconds after which it is asked again whether to stop."""


class Abandoned(HeadwiseError):  # noqa: N818 - a state, not a fault
    """Another batch failed or was stopped, so this one is of no use any more."""


class Abandonable:
    """A decoder that writes no further token once ``ended`` is set."""

    def __init__(self, decoder: Any, ended: threading.Event) -> None:
        self.decoder = decoder
        self.ended = ended

    def start(self, source: torch.Tensor, source_is_real: torch.Tensor) -> Any:
        """Read the sources."""
        return self.decoder.start(source, source_is_real)

    def step(self, tokens: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        """Write one token in every row, unless that is of no use any more."""
        self._go_on()
        found: tuple[torch.Tensor, Any] = self.decoder.step(tokens, state)
        return found

    def _go_on(self) -> None:
        if self.ended.is_set():
            raise Abandoned("this batch was given up, as another one ended the search")


class AbandonableChoosing(Abandonable):
    """The same for a decoder that chooses among its scores itself."""

    def step_to_likely(
        self, tokens: torch.Tensor, state: Any, count: int, forbidden: tuple[int, ...]
    ) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """Write one token in every row, unless that is of no use any more."""
        self._go_on()
        found: tuple[torch.Tensor, torch.Tensor, Any] = self.decoder.step_to_likely(
            tokens, state, count, forbidden
        )
        return found


class AbandonableAhead(AbandonableChoosing):
    """The same for one that also writes several tokens by itself."""

    def write_ahead(
        self, tokens: torch.Tensor, state: Any, **asked: Any
    ) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """Write some tokens in every row, unless that is of no use any more."""
        self._go_on()
        found: tuple[torch.Tensor, torch.Tensor, Any] = self.decoder.write_ahead(
            tokens, state, **asked
        )
        return found


def abandonable(decoder: Any, ended: threading.Event) -> Abandonable:
    """Let a decoder write no further token once ``ended`` is set."""
    if isinstance(decoder, Choosing):
        ahead = isinstance(decoder, WritingAhead)
        return (AbandonableAhead if ahead else AbandonableChoosing)(decoder, ended)
    return Abandonable(decoder, ended)


def shared_out(size: int, workers: int, *, most: int) -> int:
    """Return how big batches are, ``most`` at most, that keep all workers busy."""
    turns = max(1, math.ceil(size / (workers * most)))
    return most if workers == 1 else math.ceil(size / (workers * turns))


def all_done(
    work: Callable[[B, threading.Event | None], R],
    batches: Sequence[B],
    *,
    workers: int,
    stop: Callable[[], None],
) -> list[R]:
    """Do ``work`` on each batch, ``workers`` at a time; the last take longest."""
    if workers > 1 and len(batches) > 1:
        jobs = [partial(work, batch) for batch in reversed(batches)]
        return side_by_side(jobs, workers=workers, stop=stop)[::-1]
    found = []
    for batch in batches:
        stop()
        found.append(work(batch, None))
    return found


def side_by_side(
    jobs: Sequence[Callable[[threading.Event], R]],
    *,
    workers: int,
    stop: Callable[[], None],
) -> list[R]:
    """Do all jobs and return what they found, in their order.

    The first are begun first. What one of them raises, ``stop`` raises, or a key
    interrupts, sets the event that each was given, and is raised once all have ended.
    """
    ended = threading.Event()
    with (
        _one_thread_each(),
        ThreadPoolExecutor(
            workers, "search", initializer=torch.set_num_threads, initargs=(1,)
        ) as pool,
    ):
        begun = [pool.submit(job, ended) for job in jobs]
        try:
            pending: set[Future[R]] = set(begun)
            while pending:
                stop()
                done, pending = wait(pending, LOOK_UP, FIRST_COMPLETED)
                for each in done:
                    each.result()
                    stop()
        except BaseException:
            ended.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [each.result() for each in begun]


def one_thread(asked: bool) -> AbstractContextManager[None]:
    """Let torch use one thread, if that is asked for and not so already.

    Several threads sum up parts of a product, and the last bits depend on how many.
    """
    several = asked and torch.get_num_threads() > 1
    return _one_thread_each() if several else nullcontext()


class _Threads:
    """How many threads torch had before somebody began to search side by side."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.searches = 0
        self.before = 1


_THREADS = _Threads()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let every operation of torch run on one thread; it is a switch of the process."""
    with _THREADS.lock:
        if not _THREADS.searches:
            _THREADS.before = torch.get_num_threads()
        _THREADS.searches += 1
    torch.set_num_threads(1)
    try:
        yield
    finally:
        with _THREADS.lock:
            _THREADS.searches -= 1
            torch.set_num_threads(_THREADS.before)
