"""How far a long translation is, now and then, for people."""

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
    """Says what is done of lines and of a long line, when it was silent for a while.

    ``where`` names the place of a line, counted from 1.
    """

    def __init__(self, where: Callable[[int], str]) -> None:
        self._where = where
        self._said = time.monotonic()
        self._line = 0
        self._since = self._said
        self._before = 0

    def __call__(self, progress: Progress) -> None:
        """Print a line if it is time for one."""
        now = time.monotonic()
        if progress.of_characters and progress.lines + 1 != self._line:
            self._line, self._since = progress.lines + 1, now
            self._before = progress.characters
        if now - self._said >= SECONDS_BETWEEN_LINES:
            self._said = now
            say(self._shown(progress, now))

    def _shown(self, progress: Progress, now: float) -> str:
        if not progress.of_characters:
            return f"lines translated: {progress.lines:,}"
        done, whole = progress.characters, progress.of_characters
        text = (
            f"{self._where(progress.lines + 1)}: {done / whole:.0%} of its {whole:,} "
            "characters are translated"
        )
        if done == self._before:
            return text
        seconds = (now - self._since) * (whole - done) / (done - self._before)
        return f"{text}, {duration(seconds)} left"
