"""Stop signals: noticed between two pieces of work, so that the work can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from headwise.errors import Stopped

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Interrupted(KeyboardInterrupt):
    """SIGINT came and was waited with until the work could be saved."""


class StopSignals:
    """While entered, stop signals are kept until :meth:`check` asks.

    A second SIGINT interrupts at once. A signal that is ignored, as nohup has it, stays
    so. Outside the main thread, where Python allows no handlers, nothing changes.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def check(self) -> None:
        """Raise ``Interrupted`` or ``Stopped`` if a signal came, once."""
        received, self.received = self.received, None
        if received == signal.SIGINT:
            raise Interrupted("interrupted; everything is saved")
        if received is not None:
            name = signal.Signals(received).name
            raise Stopped(f"stopped by {name}; everything is saved")

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for each in SIGNALS:
                if signal.getsignal(each) != signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self._receive)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._before.clear()
        if kind is None:
            self.check()  # a signal that came after the last piece of work

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """Let SIGTERM raise ``Stopped`` wherever the work is, as SIGINT does by itself.

    So what is half made is cleared away. Inside, ``StopSignals`` may ask for patience.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped("stopped by SIGTERM; the same command starts this step again")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
