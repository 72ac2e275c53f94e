"""Input lines of files or standard input; invalid UTF-8 is replaced."""

from __future__ import annotations

import sys
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from headwise.cli.argument_checks import STANDARD_INPUT, input_error
from headwise.cli.options import say
from headwise.cli.standard_streams import error_reason
from headwise.errors import DataError
from headwise.tasks import find_task

if TYPE_CHECKING:
    from headwise.text.nonblocking_lines import Pause


def is_terminal(files: Sequence[Path]) -> bool:
    """Return whether the first input is a terminal, where a user types."""
    first = files[0] if files else STANDARD_INPUT
    return first == STANDARD_INPUT and sys.stdin is not None and sys.stdin.isatty()


def input_lines(files: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of all files, or of standard input."""
    return (each for each in InputLines(files) if isinstance(each, str))


def silent_lines(path: Path) -> list[str]:
    """Return the lines of a file, of which notes are printed when it is read again."""
    lines = InputLines([path], refuse_old_mac=False, on_note=lambda _: None)
    return [each for each in lines if isinstance(each, str)]


class GivenLines:
    """The lines of texts that stand on the command line, and the place of each."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._lines = [line for text in texts for line in text.split("\n")]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def where(self, number: int) -> str:
        """Return the place of line ``number``, counted from 1."""
        return f"line {number:,}"


class InputLines:
    """The lines of all files, or of standard input, and the position of each.

    Yields ``PAUSE`` between lines where the next one has not arrived yet, or after
    every line with ``after_each``; then calls ``before_waiting``.
    """

    def __init__(
        self,
        files: Sequence[Path],
        *,
        refuse_old_mac: bool = True,
        after_each: bool = False,
        before_waiting: Callable[[], object] = lambda: None,
        on_note: Callable[[str], object] = say,
    ) -> None:
        self.files = files or [STANDARD_INPUT]
        self.refuse_old_mac = refuse_old_mac
        self.after_each = after_each
        self.before_waiting = before_waiting
        self.on_note = on_note
        self._names: list[str] = []
        self._starts: list[int] = []
        """Number of lines before each file opened so far."""
        self._read = 0

    def __iter__(self) -> Iterator[str | Pause]:
        for path in self.files:
            is_input = path == STANDARD_INPUT
            name = "standard input" if is_input else str(path)
            self._names.append(name)
            self._starts.append(self._read)
            try:
                if is_input:
                    yield from self._lines(sys.stdin.buffer, name)
                else:
                    yield from self._lines_of_file(path)
            except (EOFError, zlib.error) as error:
                raise DataError(
                    f"{name} is a corrupt .gz file: {error}; copy it again"
                ) from None
            except BrokenPipeError:
                raise
            except OSError as error:
                if is_input:
                    raise input_error(error) from None
                raise DataError(
                    f"{name} cannot be read: {error_reason(error)}"
                ) from None

    def where(self, number: int) -> str:
        """Return file and line of input line ``number``, counted from 1."""
        file = bisect_right(self._starts, number - 1) - 1
        line = f"line {number - self._starts[file]:,}"
        return line if len(self.files) == 1 else f"{self._names[file]}, {line}"

    def _lines_of_file(self, path: Path) -> Iterator[str | Pause]:
        with path.open("rb") as file:
            yield from self._lines(file, str(path))

    def _lines(self, file: BinaryIO, name: str) -> Iterator[str | Pause]:
        """Yield the lines of ``file``; then tell what was replaced in them."""
        from headwise.text.encodings import open_text
        from headwise.text.lines import LineTally, decode_line
        from headwise.text.nonblocking_lines import PAUSE, NonblockingLines

        arriving = NonblockingLines(
            file, before_waiting=self.before_waiting, after_each=self.after_each
        )
        yield from arriving.wait()
        tally = LineTally()
        for raw in arriving.lines(open_text(file, name)):
            if raw is PAUSE:
                yield raw
                continue
            line = decode_line(
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
            self.on_note(note)


class PictureLines(InputLines):
    """The lines by which a model reads the pictures of all files.

    A PNG file is one line, its path. A ``.npz`` file has a line for each picture or
    video, a data URL. Any other file is a list of such lines.
    """

    def _lines_of_file(self, path: Path) -> Iterator[str | Pause]:
        suffix = path.suffix.lower()
        if suffix == ".png":
            pictures: Iterator[str] = iter([str(path)])
        elif suffix == ".npz":
            from headwise.data.pictures import read_pictures

            pictures = read_pictures(path)
        else:
            yield from super()._lines_of_file(path)
            return
        for each in pictures:
            self._read += 1
            yield each


def lines_for(task: str, files: Sequence[Path], **options: Any) -> InputLines:
    """Return the lines of ``files`` as a model of this task reads them.

    ``options`` are those of :class:`InputLines`.
    """
    reads_pictures = find_task(task).pair_format.reads_pictures
    return (PictureLines if reads_pictures else InputLines)(files, **options)
