r"""Lines of a pipe or terminal as they arrive, with a sign where there are none yet.

Whoever translates lines in batches gains by reading ahead, and must not withhold an
answer while there is nothing to read. ``PAUSE`` among the lines says so.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Iterator
from enum import Enum
from io import BufferedReader
from typing import BinaryIO, Final, Literal

CHUNK_BYTES = 2**16
"""Bytes that are read at a time: what a pipe of Linux holds."""

WAIT_SECONDS = 0.01
"""Seconds that a writer has for its next lines before there are none yet."""


class Pause(Enum):
    """What ``PAUSE`` is of."""

    PAUSE = "the next line is not there yet"


PAUSE: Final = Pause.PAUSE
"""Stands among lines where reading the next one would have to wait."""


class StreamLines:
    """The raw lines of a file that is open for reading bytes, and pauses.

    Of a regular file every line is there at once, and there is no pause. Before it
    waits, ``before_waiting`` is called: when that is, everybody has had what came
    before the pause. With ``after_each`` there is a pause behind every line.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        before_waiting: Callable[[], object] = lambda: None,
        after_each: bool = False,
    ) -> None:
        self.file = file
        self.before_waiting = before_waiting
        self.after_each = after_each

    def wait(self) -> Iterator[Literal[Pause.PAUSE]]:
        """Yield a pause if there is nothing to read yet."""
        if _may_wait(self.file) and not _has_more(self.file):
            yield from self._pause()

    def lines(self, opened: BinaryIO) -> Iterator[bytes | Literal[Pause.PAUSE]]:
        """Yield line after line of ``opened``, which is the file or made of it."""
        may_wait = opened is self.file and _may_wait(self.file)
        for each in self._available_lines() if may_wait else opened:
            yield each
            if self.after_each and each is not PAUSE:
                yield from self._pause()

    def _available_lines(self) -> Iterator[bytes | Literal[Pause.PAUSE]]:
        assert isinstance(self.file, BufferedReader)
        unended: list[bytes] = []
        # What was looked at before is in the buffer, and nothing is after a read1.
        chunk = self.file.read1(CHUNK_BYTES)
        while chunk:
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield b"".join([*unended, line, b"\n"])
                unended = []
            if rest:
                unended.append(rest)
            if not _has_more(self.file):
                yield from self._pause()
            chunk = self.file.read1(CHUNK_BYTES)
        if unended:
            yield b"".join(unended)

    def _pause(self) -> Iterator[Literal[Pause.PAUSE]]:
        yield PAUSE
        self.before_waiting()


def _may_wait(file: BinaryIO) -> bool:
    """Tell whether ``file`` is a pipe, a terminal or the like."""
    if not isinstance(file, BufferedReader):
        return False
    try:
        return not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:  # a file of Python's own, in memory
        return False


def _has_more(file: BinaryIO) -> bool:
    """Tell whether bytes, or the end, are there to be read or soon will be."""
    return bool(select.select([file], [], [], WAIT_SECONDS)[0])
