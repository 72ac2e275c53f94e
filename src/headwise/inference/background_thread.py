"""Threads that compute in the background, and end before the interpreter does.

The interpreter does not wait for a daemon thread. It unwinds the thread's stack when
that next asks for the GIL, and if torch is on it, C++ aborts the process: "terminate
called without an active exception".
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable

from headwise.errors import Cancelled

SECONDS_TO_END = 10.0
"""How long each thread is waited for when the process ends."""

_THREADS: weakref.WeakSet[BackgroundThread] = weakref.WeakSet()


class BackgroundThread:
    """A daemon thread that runs ``work(check_stop)``, started at once.

    ``check_stop`` is to be called now and then; it raises ``Cancelled`` after
    :meth:`cancel`, which the end of the process calls too. ``work`` handles all errors.
    """

    def __init__(self, work: Callable[[Callable[[], None]], None]) -> None:
        self._cancel_requested = threading.Event()
        self._thread = threading.Thread(
            target=work, args=(self._check_stop,), daemon=True
        )
        _THREADS.add(self)
        self._thread.start()

    def cancel(self) -> None:
        """Ask the work to end soon."""
        self._cancel_requested.set()

    def join(self, seconds: float) -> None:
        """Wait until the work has ended, at most so long."""
        self._thread.join(seconds)

    def _check_stop(self) -> None:
        if self._cancel_requested.is_set():
            raise Cancelled("this work was cancelled")


@atexit.register
def _end_all() -> None:
    """Cancel what still runs, and wait for it."""
    running = [*_THREADS]
    for each in running:
        each.cancel()
    for each in running:
        each.join(SECONDS_TO_END)
