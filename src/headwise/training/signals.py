"""Stop signals: noticed between two pieces of work, so that the work can be saved."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from headwise.errors import Stopped

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """While entered, SIGTERM and SIGINT are kept until :meth:`check` asks.

    A second SIGINT interrupts at once. Outside the main thread, where Python allows no
    handlers, signals stay as they were.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` or ``Stopped`` if a signal came."""
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received is not None:
            name = signal.Signals(self.received).name
            raise Stopped(f"stopped by {name}; everything is saved")

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for each in SIGNALS:
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

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number
