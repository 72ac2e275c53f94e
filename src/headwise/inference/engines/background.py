"""A search in a thread of its own, for engines that let Python go on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headwise.decoding.hypothesis import Hypothesis
from headwise.errors import HeadwiseError

Outputs = list[list[Hypothesis]]


class GivenUp(HeadwiseError):  # noqa: N818 - a state, not a fault
    """Nobody waits for this search any more."""


class SearchAside:
    """A search that goes on while its caller does other things.

    ``search`` is handed a function to call now and then, which raises when the search
    was given up. Of searches with the same ``turn`` one runs at a time.
    """

    def __init__(
        self, search: Callable[[Callable[[], None]], Outputs], turn: threading.Lock
    ) -> None:
        self._search = search
        self._turn = turn
        self._given_up = threading.Event()
        self._found: Outputs = []
        self._error: BaseException | None = None
        # Should the process end, it waits for nobody.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def ready(self) -> bool:
        """Tell whether the search has ended."""
        return not self._thread.is_alive()

    def outputs(self) -> Outputs:
        """Wait, and return what was found or raise what was raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found

    def give_up(self) -> None:
        """Let the search end soon."""
        self._given_up.set()

    def _go_on(self) -> None:
        if self._given_up.is_set():
            raise GivenUp("this search was given up")

    def _run(self) -> None:
        try:
            with self._turn:
                self._go_on()
                self._found = self._search(self._go_on)
        except BaseException as error:
            self._error = error
