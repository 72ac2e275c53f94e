"""Batches of a search in parallel threads, one core each.

Threads that share every matrix product wait for one another at the end of each, and the
products of a small model are short. Threads with batches of their own never wait, hold
the GIL only between products, and share the weights. Where they run torch, see
:mod:`headwise.tasks.translation.torch_threads`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import TypeVar

import numpy as np

from headwise.data.token_budget import split_by_tokens
from headwise.errors import Cancelled

B = TypeVar("B")
R = TypeVar("R")

CheckStop = Callable[[], None]
"""Called now and then during a search; raises to end it."""

STOP_POLL_SECONDS = 0.1
"""Interval at which ``check_stop`` is called while other threads work."""


MIN_ROUNDS = 4
"""Batches of each thread to aim for: threads end at about the same time only if none
has half of its work in one batch."""


def tokens_per_batch(total: int, threads: int, *, limit: int) -> int:
    """Return the size of batches, at most ``limit``, that keep all threads busy.

    Each thread gets ``MIN_ROUNDS`` batches of a quarter of ``limit`` or more: a smaller
    one has too few rows for fast matrix products.
    """
    if threads == 1:
        return limit
    share = total / threads
    rounds = max(math.ceil(share / limit), min(MIN_ROUNDS, int(share / (limit / 4))), 1)
    return math.ceil(share / rounds)


def cut_batches(sizes: Sequence[int], limit: int, *, alone: bool) -> list[list[int]]:
    """Cut indices into batches of similar sizes, smallest first.

    ``limit`` bounds the padded size of a batch; with ``alone``, each index is its own.
    """
    order = sorted(range(len(sizes)), key=lambda index: sizes[index])
    if alone:
        return [[index] for index in order]
    in_order = np.array([sizes[index] for index in order], dtype=np.int64)
    starts = [*split_by_tokens(in_order, limit), len(order)]
    return [order[first:last] for first, last in pairwise(starts)]


def run_in_threads(
    work: Callable[[B, CheckStop], R],
    batches: Sequence[B],
    *,
    threads: int,
    check_stop: CheckStop,
    start_thread: Callable[[], object] = lambda: None,
) -> list[R]:
    """Run ``work(batch, check)`` on all batches; return the results in their order.

    ``work`` calls the ``check`` it is given once a step. The first batches are started
    first. Each thread calls ``start_thread`` before anything else. An exception in a
    batch or of ``check_stop``, or Ctrl-C, cancels the other batches, whose ``check``
    raises ``Cancelled``, and is raised when they have ended.
    """
    cancelled = threading.Event()

    def check() -> None:
        if cancelled.is_set():
            raise Cancelled("this batch was cancelled, as another ended the search")

    with ThreadPoolExecutor(threads, "search", initializer=start_thread) as pool:
        futures = [pool.submit(work, batch, check) for batch in batches]
        try:
            pending: set[Future[R]] = set(futures)
            while pending:
                check_stop()
                done, pending = wait(pending, STOP_POLL_SECONDS, FIRST_COMPLETED)
                for future in done:
                    future.result()
                    check_stop()
        except BaseException:
            cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]
