"""Stop signals: handled between two steps, so that a checkpoint can be saved.

A step may take long, and Python runs no signal handler during it; then another thread
saves and ends the process.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from headwise.errors import HeadwiseError, Stopped

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

GRACE_SECONDS = 0.5
"""Seconds that a step may still take before the process is ended amid it."""

INTERRUPTED = 130

LISTENER = "stop signals"
"""Name of the thread that waits for signals."""


class Interrupted(KeyboardInterrupt):
    """SIGINT, raised once a checkpoint can be saved."""


class StopSignals:
    """Context manager that defers stop signals until :meth:`check` is called.

    A second SIGINT interrupts at once. A signal that is ignored, as by nohup, stays
    ignored. Outside the main thread Python allows no handlers, so nothing changes.

    With ``force_exit``, a signal that is not checked for within ``GRACE_SECONDS`` calls
    ``emergency_save`` from another thread and ends the process.
    """

    def __init__(self, *, force_exit: bool = False) -> None:
        self.received: int | None = None
        self.emergency_save: Callable[[], None] | None = None
        self._watchdog = Watchdog(self._force_exit) if force_exit else None
        self._before: dict[int, Any] = {}

    def check(self) -> None:
        """Raise ``Interrupted`` or ``Stopped`` if a signal came; once per signal."""
        received, self.received = self.received, None
        if received is None:
            return
        if self._watchdog is not None:
            self._watchdog.acknowledge()
        if received == signal.SIGINT:
            raise Interrupted("interrupted; everything is saved")
        raise Stopped(f"stopped by {_name(received)}; everything is saved")

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for each in SIGNALS:
                if signal.getsignal(each) != signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self._receive)
            if self._watchdog is not None:
                self._watchdog.arm()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._watchdog is not None:
            self._watchdog.disarm()
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._before.clear()
        if kind is None:
            self.check()  # a signal that came after the last step

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number

    def _force_exit(self, number: int) -> None:
        message = f"stopped by {_name(number)}; everything is saved"
        code = _exit_code(number)
        try:
            if self.emergency_save is not None:
                self.emergency_save()
        except HeadwiseError as error:
            message, code = str(error), error.exit_code
        except Exception as error:  # the process must end in any case
            message, code = f"{type(error).__name__}: {error}", 1
        _leave(message, code)


class Watchdog:
    """Calls ``act`` from its own thread if a signal is not acknowledged in time."""

    def __init__(
        self, act: Callable[[int], None], grace_seconds: float = GRACE_SECONDS
    ) -> None:
        self.act = act
        self.grace_seconds = grace_seconds
        self._acknowledged = threading.Event()
        self._ends: tuple[socket.socket, socket.socket] | None = None
        self._before = -1

    def arm(self) -> None:
        """Start to listen; only the main thread may."""
        ours, theirs = self._ends = socket.socketpair()
        theirs.setblocking(False)
        # The C-level handler writes there, also while Python runs no handlers.
        self._before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        threading.Thread(
            target=self._listen, args=(ours,), daemon=True, name=LISTENER
        ).start()

    def acknowledge(self) -> None:
        """Mark the signal as handled."""
        self._acknowledged.set()

    def disarm(self) -> None:
        """Stop listening."""
        if self._ends is None:
            return
        signal.set_wakeup_fd(self._before)
        for end in self._ends:
            end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends = None

    def _listen(self, ours: socket.socket) -> None:
        while True:
            try:
                received = ours.recv(1)
            except OSError:
                return
            if not received or self._ends is None:
                return
            number = received[0]
            if number not in SIGNALS or self._acknowledged.wait(self.grace_seconds):
                continue
            if self._ends is not None:
                self.act(number)


@contextmanager
def stop_signals_raise() -> Iterator[None]:
    """Let stop signals raise at once inside the block: ``Stopped`` for SIGTERM.

    So half-written folders are removed on the way out. Where Python runs no handler the
    process ends all the same, and the next one removes them. ``StopSignals`` inside
    the block defers signals again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    again = "the same command starts this step again"

    def stop(number: int, frame: FrameType | None) -> None:
        watchdog.acknowledge()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Stopped(f"stopped by {_name(number)}; {again}")

    def force_exit(number: int) -> None:
        _leave(f"stopped by {_name(number)}; {again}", _exit_code(number))

    watchdog = Watchdog(force_exit)
    wanted = [e for e in SIGNALS if signal.getsignal(e) != signal.SIG_IGN]
    before = {each: signal.signal(each, stop) for each in wanted}
    watchdog.arm()
    try:
        yield
    finally:
        watchdog.disarm()
        for each, handler in before.items():
            signal.signal(each, handler)


def ignore_stop_signals() -> None:
    """Let stop signals pass by: the work is done, and the process is on its way out."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)


def _name(number: int) -> str:
    return signal.Signals(number).name


def _exit_code(number: int) -> int:
    return INTERRUPTED if number == signal.SIGINT else Stopped.exit_code


def _leave(message: str, code: int) -> None:
    """End the process from any thread, without cleaning up."""
    print(f"headwise: {message}", file=sys.stderr, flush=True)
    os._exit(code)
