"""Stop signals: heeded between two pieces of work, so that the work can be saved.

A piece of work may take long, and Python runs no handler while it lasts; then another
thread does what is to be done, and ends the process.
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

PATIENCE = 0.5
"""Seconds that a piece of work may still take before it is abandoned."""

INTERRUPTED = 130

LISTENER = "stop signals"
"""Name of the thread that hears them."""


class Interrupted(KeyboardInterrupt):
    """SIGINT came and was waited with until the work could be saved."""


class StopSignals:
    """While entered, stop signals are kept until :meth:`check` asks.

    A second SIGINT interrupts at once. A signal that is ignored, as nohup has it, stays
    so. Outside the main thread, where Python allows no handlers, nothing changes.

    With ``abandons``, a signal that nobody asks for within ``PATIENCE`` has ``rescue``
    called from another thread, and ends the process.
    """

    def __init__(self, *, abandons: bool = False) -> None:
        self.received: int | None = None
        self.rescue: Callable[[], None] | None = None
        self._alarm = Alarm(self._abandon) if abandons else None
        self._before: dict[int, Any] = {}

    def check(self) -> None:
        """Raise ``Interrupted`` or ``Stopped`` if a signal came, once."""
        received, self.received = self.received, None
        if received is None:
            return
        if self._alarm is not None:
            self._alarm.heeded()
        if received == signal.SIGINT:
            raise Interrupted("interrupted; everything is saved")
        raise Stopped(f"stopped by {_name(received)}; everything is saved")

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for each in SIGNALS:
                if signal.getsignal(each) != signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self._receive)
            if self._alarm is not None:
                self._alarm.arm()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._alarm is not None:
            self._alarm.disarm()
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._before.clear()
        if kind is None:
            self.check()  # a signal that came after the last piece of work

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number

    def _abandon(self, number: int) -> None:
        message = f"stopped by {_name(number)}; everything is saved"
        code = _exit_code(number)
        try:
            if self.rescue is not None:
                self.rescue()
        except HeadwiseError as error:
            message, code = str(error), error.exit_code
        except Exception as error:  # whatever it is, the process is to end
            message, code = f"{type(error).__name__}: {error}", 1
        _leave(message, code)


class Alarm:
    """Acts on a signal that was not heeded in time, from a thread of its own."""

    def __init__(self, act: Callable[[int], None], patience: float = PATIENCE) -> None:
        self.act = act
        self.patience = patience
        self._heeded = threading.Event()
        self._ends: tuple[socket.socket, socket.socket] | None = None
        self._before = -1

    def arm(self) -> None:
        """Begin to listen; only the main thread may."""
        ours, theirs = self._ends = socket.socketpair()
        theirs.setblocking(False)
        # The system's own handler writes there, whatever Python is busy with.
        self._before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        threading.Thread(
            target=self._listen, args=(ours,), daemon=True, name=LISTENER
        ).start()

    def heeded(self) -> None:
        """Say that the signal was seen to."""
        self._heeded.set()

    def disarm(self) -> None:
        """Listen no longer."""
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
            if number not in SIGNALS or self._heeded.wait(self.patience):
                continue
            if self._ends is not None:
                self.act(number)


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """Let SIGTERM raise ``Stopped`` wherever the work is, as SIGINT does by itself.

    So what is half made is cleared away; where no handler gets a word in, the process
    ends all the same, and the next one clears away. Inside, ``StopSignals`` may ask for
    patience.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    again = "the same command starts this step again"

    def stop(number: int, frame: FrameType | None) -> None:
        alarm.heeded()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Stopped(f"stopped by {_name(number)}; {again}")

    def abandon(number: int) -> None:
        _leave(f"stopped by {_name(number)}; {again}", _exit_code(number))

    alarm = Alarm(abandon)
    wanted = [e for e in SIGNALS if signal.getsignal(e) != signal.SIG_IGN]
    before = {each: signal.signal(each, stop) for each in wanted}
    alarm.arm()
    try:
        yield
    finally:
        alarm.disarm()
        for each, handler in before.items():
            signal.signal(each, handler)


def _name(number: int) -> str:
    return signal.Signals(number).name


def _exit_code(number: int) -> int:
    return INTERRUPTED if number == signal.SIGINT else Stopped.exit_code


def _leave(message: str, code: int) -> None:
    """End the process from any thread, whatever the others are doing."""
    print(f"headwise: {message}", file=sys.stderr, flush=True)
    os._exit(code)
