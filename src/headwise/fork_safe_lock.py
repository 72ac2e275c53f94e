"""A lock that is free in a forked process, whoever held it before the fork."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from weakref import WeakSet


class ForkSafeLock:
    """A reentrant lock: ``with lock.held():``.

    A fork copies a lock as it is, but of threads only the one that forks: a lock that
    another held would stay locked for ever. So each is made anew in the child. What a
    lock protects must bear that its holder stopped halfway.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # garbage collection may run while it is held
        _LOCKS.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock inside the block."""
        with self._lock:
            yield

    def renew(self) -> None:
        """Free the lock, whoever holds it."""
        self._lock = RLock()


_LOCKS: WeakSet[ForkSafeLock] = WeakSet()


def _renew_all() -> None:
    for each in [*_LOCKS]:
        each.renew()


if hasattr(os, "register_at_fork"):  # there are no forks on Windows
    os.register_at_fork(after_in_child=_renew_all)
