"""A search in a background thread, for engines that release the GIL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from headwise.errors import HeadwiseError
from headwise.inference.engines.engine import Outputs


class Cancelled(HeadwiseError):  # noqa: N818 - a state, not an error
    """The search was cancelled."""


class BackgroundSearch(Future[Outputs]):
    """The future of a search that runs in a daemon thread.

    An executor's threads would be waited for when the process ends; this one is not.
    ``search`` is given a ``check_stop`` to call now and then, which raises
    ``Cancelled`` after ``cancel``. Searches that share a ``lock`` run one at a time.
    """

    def __init__(
        self, search: Callable[[Callable[[], None]], Outputs], lock: threading.Lock
    ) -> None:
        super().__init__()
        self._cancel_requested = threading.Event()
        threading.Thread(target=self._run, args=(search, lock), daemon=True).start()

    def cancel(self) -> bool:
        """End the search soon, even if it is running; ``result`` raises then."""
        self._cancel_requested.set()
        return not self.done()

    def _check_stop(self) -> None:
        if self._cancel_requested.is_set():
            raise Cancelled("this search was cancelled")

    def _run(
        self, search: Callable[[Callable[[], None]], Outputs], lock: threading.Lock
    ) -> None:
        try:
            with lock:
                self._check_stop()
                outputs = search(self._check_stop)
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(outputs)
