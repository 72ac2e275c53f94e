"""A search in a background thread, for engines that release the GIL."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from headwise.fork_safe_lock import ForkSafeLock
from headwise.inference.background_thread import BackgroundThread
from headwise.inference.engines.engine import Outputs


class BackgroundSearch(Future[Outputs]):
    """The future of a search that runs in a background thread.

    An executor's threads would be waited for, however long they take, when the process
    ends; this one is cancelled.
    ``search`` is given a ``check_stop`` to call now and then, which raises
    ``Cancelled`` after ``cancel``. Searches that share a ``lock`` run one at a time.
    """

    def __init__(
        self, search: Callable[[Callable[[], None]], Outputs], lock: ForkSafeLock
    ) -> None:
        super().__init__()
        self._thread = BackgroundThread(partial(self._run, search, lock))

    def cancel(self) -> bool:
        """End the search soon, even if it is running; ``result`` raises then."""
        self._thread.cancel()
        return not self.done()

    def _run(
        self,
        search: Callable[[Callable[[], None]], Outputs],
        lock: ForkSafeLock,
        check_stop: Callable[[], None],
    ) -> None:
        try:
            with lock.held():
                check_stop()
                outputs = search(check_stop)
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(outputs)
