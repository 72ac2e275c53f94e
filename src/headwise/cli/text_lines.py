"""Lines of text from files or standard input, whatever bytes they hold."""

from __future__ import annotations

import sys
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from headwise.cli.checks import STANDARD_INPUT, input_error
from headwise.cli.options import say
from headwise.cli.streams import why
from headwise.errors import DataError

if TYPE_CHECKING:
    from headwise.text.arriving import Pause


def is_terminal(files: Sequence[Path]) -> bool:
    """Tell whether the first line is one that somebody has yet to type."""
    first = files[0] if files else STANDARD_INPUT
    return first == STANDARD_INPUT and sys.stdin is not None and sys.stdin.isatty()


def lines_of(files: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of all files, or of standard input."""
    return (each for each in InputLines(files) if isinstance(each, str))


class InputLines:
    """The lines of all files, or of standard input; and where each of them stands.

    Between them is ``PAUSE`` where the next one is not there yet, and behind every one
    with ``after_each``; then ``before_waiting`` is called.
    """

    def __init__(
        self,
        files: Sequence[Path],
        *,
        refuse_old_mac: bool = True,
        after_each: bool = False,
        before_waiting: Callable[[], object] = lambda: None,
    ) -> None:
        self.files = files or [STANDARD_INPUT]
        self.refuse_old_mac = refuse_old_mac
        self.after_each = after_each
        self.before_waiting = before_waiting
        self._names: list[str] = []
        self._before: list[int] = []
        """Lines before each file that was begun."""
        self._read = 0

    def __iter__(self) -> Iterator[str | Pause]:
        for path in self.files:
            is_input = path == STANDARD_INPUT
            name = "standard input" if is_input else str(path)
            self._names.append(name)
            self._before.append(self._read)
            try:
                if is_input:
                    yield from self._lines(sys.stdin.buffer, name)
                else:
                    with path.open("rb") as file:
                        yield from self._lines(file, name)
            except (EOFError, zlib.error) as error:
                raise DataError(
                    f"{name} is a damaged .gz file: {error}; copy it again"
                ) from None
            except BrokenPipeError:
                raise
            except OSError as error:
                if is_input:
                    raise input_error(error) from None
                raise DataError(f"{name} cannot be read: {why(error)}") from None

    def where(self, number: int) -> str:
        """Name the place of a line, counted from 1 over all files."""
        file = bisect_right(self._before, number - 1) - 1
        line = f"line {number - self._before[file]:,}"
        return line if len(self.files) == 1 else f"{self._names[file]}, {line}"

    def _lines(self, file: BinaryIO, name: str) -> Iterator[str | Pause]:
        """Yield the lines of ``file``; then say what was mended in them."""
        from headwise.text.arriving import PAUSE, Arriving
        from headwise.text.encodings import opened_text
        from headwise.text.lines import LineTally, line_of

        arriving = Arriving(
            file, before_waiting=self.before_waiting, after_each=self.after_each
        )
        yield from arriving.wait()
        tally = LineTally()
        for raw in arriving.lines(opened_text(file, name)):
            if raw is PAUSE:
                yield raw
                continue
            line = line_of(
                raw,
                tally.lines + 1,
                name=name,
                strict=False,
                refuse_old_mac=self.refuse_old_mac,
            )
            tally.add(line)
            self._read += 1
            yield line.text
        for note in tally.notes(name):
            say(note)
