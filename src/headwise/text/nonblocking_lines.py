r"""Lines of a stream (pipe, terminal or file), with ``PAUSE`` where none has arrived.

Translating in batches needs reading ahead, but must not delay answers while there is
nothing to read: at a ``PAUSE``, what was read so far is to be translated.
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
"""Bytes to read at a time: the capacity of a Linux pipe."""

WAIT_SECONDS = 0.01
"""Time to wait for the next line before a pause."""


class Pause(Enum):
    """The type of ``PAUSE``."""

    PAUSE = "no further line has arrived yet"


PAUSE: Final = Pause.PAUSE
"""Yielded between lines where reading the next one would block."""


class NonblockingLines:
    """The raw lines of a binary file, with pauses.

    A regular file has no pauses. ``before_waiting`` is called after the consumer of a
    pause asks for more, and before reading blocks. With ``after_each`` there is a pause
    after every line.
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
        """Yield a pause if nothing can be read yet."""
        if _may_wait(self.file) and not _has_more(self.file):
            yield from self._pause()

    def lines(self, opened: BinaryIO) -> Iterator[bytes | Literal[Pause.PAUSE]]:
        """Yield the lines of ``opened``: the file, or its decompressed content."""
        may_wait = opened is self.file and _may_wait(self.file)
        for each in self._available_lines() if may_wait else opened:
            yield each
            if self.after_each and each is not PAUSE:
                yield from self._pause()

    def _available_lines(self) -> Iterator[bytes | Literal[Pause.PAUSE]]:
        assert isinstance(self.file, BufferedReader)
        incomplete: list[bytes] = []
        # The first read1 returns what was peeked at; later ones leave the buffer empty.
        chunk = self.file.read1(CHUNK_BYTES)
        while chunk:
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield b"".join([*incomplete, line, b"\n"])
                incomplete = []
            if rest:
                incomplete.append(rest)
            if not _has_more(self.file):
                yield from self._pause()
            chunk = self.file.read1(CHUNK_BYTES)
        if incomplete:
            yield b"".join(incomplete)

    def _pause(self) -> Iterator[Literal[Pause.PAUSE]]:
        yield PAUSE
        self.before_waiting()


def _may_wait(file: BinaryIO) -> bool:
    """Return whether ``file`` is a pipe, a terminal or the like."""
    if not isinstance(file, BufferedReader):
        return False
    try:
        return not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:  # an in-memory file
        return False


def _has_more(file: BinaryIO) -> bool:
    """Return whether data or end of file can be read within ``WAIT_SECONDS``."""
    return bool(select.select([file], [], [], WAIT_SECONDS)[0])
