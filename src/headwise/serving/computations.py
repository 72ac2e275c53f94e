"""Computations of a server: one at a time, on a thread, for clients that still wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread
from starlette.requests import Request

CheckStop = Callable[[], None]
T = TypeVar("T")

MAX_WAITING = 16
"""Most computations that wait or run; what comes then is refused."""


class TooManyWaitError(Exception):
    """So many computations wait that another one would wait too long."""


class ClientLeftError(Exception):
    """The client closed its connection before there was an answer."""


class Computations:
    """Runs one computation at a time, in the order in which they came.

    A model is changed while it is looked at, so that two threads must not use it. The
    event loop is free meanwhile.
    """

    def __init__(self) -> None:
        self._turn = anyio.Lock()
        self._num_waiting = 0

    async def run(self, request: Request, compute: Callable[[CheckStop], T]) -> T:
        """Return what ``compute`` returns, which is given a function to call often.

        That raises ``ClientLeftError`` once the client of ``request``, whose body has
        been read, has left. Then this raises it too, and nothing is computed if its
        turn had not come. Raises ``TooManyWaitError`` if ``MAX_WAITING`` wait.
        """
        if self._num_waiting >= MAX_WAITING:
            raise TooManyWaitError
        self._num_waiting += 1
        stop = threading.Event()

        def check_stop() -> None:
            if stop.is_set():
                raise ClientLeftError

        found: list[T] = []
        failed: list[Exception] = []
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_cancel_when_gone, request, stop, group.cancel_scope)
                async with self._turn:
                    try:
                        found.append(await to_thread.run_sync(compute, check_stop))
                    except Exception as error:  # raised below, not as a group
                        failed.append(error)
                group.cancel_scope.cancel()
        finally:
            self._num_waiting -= 1
        if failed:
            raise failed[0]
        if not found:
            raise ClientLeftError
        return found[0]


async def _cancel_when_gone(
    request: Request, stop: threading.Event, scope: anyio.CancelScope
) -> None:
    try:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        scope.cancel()
    finally:  # the server may be stopping
        stop.set()
