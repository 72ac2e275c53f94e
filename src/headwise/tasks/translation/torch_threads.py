"""Threads of searches in PyTorch: each computes alone, without threads of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import torch

from headwise.fork_safe_lock import ForkSafeLock
from headwise.tasks.translation.thread_pool import B, CheckStop, R, run_in_threads


def run_in_torch_threads(
    work: Callable[[B, CheckStop], R],
    batches: Sequence[B],
    *,
    threads: int,
    check_stop: CheckStop,
) -> list[R]:
    """Do what ``run_in_threads`` does, with one thread of torch in each."""
    with _one_torch_thread():
        return run_in_threads(
            work,
            batches,
            threads=threads,
            check_stop=check_stop,
            start_thread=partial(torch.set_num_threads, 1),
        )


def single_threaded(enabled: bool) -> AbstractContextManager[None]:
    """Limit torch to one thread inside the block, if ``enabled`` and not so already.

    Several threads sum up parts of a product, and the last bits depend on how many.
    """
    several = enabled and torch.get_num_threads() > 1
    return _one_torch_thread() if several else nullcontext()


class _SavedThreads:
    """torch's thread count before the first of the searches that run now."""

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self.searches = 0
        self.num_threads = 1


_SAVED = _SavedThreads()


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Limit torch to one thread per operation, for the whole process."""
    with _SAVED.lock.held():
        if not _SAVED.searches:
            _SAVED.num_threads = torch.get_num_threads()
        _SAVED.searches += 1
    torch.set_num_threads(1)
    try:
        yield
    finally:
        with _SAVED.lock.held():
            _SAVED.searches -= 1
            torch.set_num_threads(_SAVED.num_threads)
