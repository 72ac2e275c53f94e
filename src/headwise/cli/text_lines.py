"""Lines of text from files or standard input, whatever bytes they hold."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from headwise.cli.checks import STANDARD_INPUT
from headwise.cli.options import say
from headwise.cli.streams import why
from headwise.errors import DataError


def lines_of(files: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of all files, or of standard input."""
    from headwise.data.reading import unzipped

    for path in files or [STANDARD_INPUT]:
        if path == STANDARD_INPUT:
            yield from _standard_input()
            continue
        try:
            with path.open("rb") as file:
                yield from _mended(unzipped(file), str(path))
        except (EOFError, zlib.error) as error:
            raise DataError(
                f"{path} is a damaged .gz file: {error}; copy it again"
            ) from None
        except OSError as error:
            reason = error.strerror or error
            raise DataError(f"{path} cannot be read: {reason}") from None


def _standard_input() -> Iterator[str]:
    try:
        yield from _mended(sys.stdin.buffer, "standard input")
    except OSError as error:
        raise DataError(
            f"standard input cannot be read: {why(error)}; name a FILE, or send text "
            "into it (< FILE, or a pipe)"
        ) from None


def _mended(stream: BinaryIO, name: str) -> Iterator[str]:
    """Yield the lines of ``stream``; then say what was mended in them."""
    from headwise.text.lines import LineTally, split_lines

    tally = LineTally()
    for line in split_lines(stream, name=name, strict=False):
        tally.add(line)
        yield line.text
    for note in tally.notes(name):
        say(note)
