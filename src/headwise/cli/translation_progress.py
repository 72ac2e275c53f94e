"""Progress messages of a long translation."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwise.cli.options import say
from headwise.wording import duration

if TYPE_CHECKING:
    from headwise.inference.translator import Progress

SECONDS_BETWEEN_LINES = 20.0


class TranslationProgress:
    """Callback that prints lines done, or the share of a long line, now and then.

    ``where`` returns file and line of a line number, counted from 1.
    """

    def __init__(self, where: Callable[[int], str]) -> None:
        self._where = where
        self._printed = time.monotonic()
        self._line = 0
        self._since = self._printed
        self._characters_before = 0

    def __call__(self, progress: Progress) -> None:
        """Print a message if the last one is old enough."""
        now = time.monotonic()
        if progress.of_characters and progress.lines + 1 != self._line:
            self._line, self._since = progress.lines + 1, now
            self._characters_before = progress.characters
        if now - self._printed >= SECONDS_BETWEEN_LINES:
            self._printed = now
            say(self._format(progress, now))

    def _format(self, progress: Progress, now: float) -> str:
        if not progress.of_characters:
            return f"lines translated: {progress.lines:,}"
        done, whole = progress.characters, progress.of_characters
        text = (
            f"{self._where(progress.lines + 1)}: {done / whole:.0%} of its {whole:,} "
            "characters translated"
        )
        if done == self._characters_before:
            return text
        seconds = (
            (now - self._since) * (whole - done) / (done - self._characters_before)
        )
        return f"{text}, {duration(seconds)} left"
