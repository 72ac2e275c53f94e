r"""Lines of a byte stream: ended by ``\n`` alone, decoded as UTF-8, nothing lost.

Python's own text files also end lines at ``\r``, and ``str.splitlines`` at U+0085,
U+2028 and others, which stand inside sentences of real corpora. Here N line ends give N
lines, and a last line without its ``\n`` counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from headwise.errors import DataError

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text, and what had to be done to get it."""

    number: int
    """Its place in the file, counted from 1."""

    text: str
    """The text, without the line's end."""

    had_carriage_return: bool = False
    """A final ``\\r`` was dropped."""

    had_byte_order_mark: bool = False
    """It opened the file with a byte order mark, which was dropped."""

    num_replaced: int = 0
    """Undecodable places that became U+FFFD."""


@dataclass(slots=True)
class LineTally:
    """Counts what was done to the lines that passed, so that it can be said once."""

    lines: int = 0
    carriage_returns: int = 0
    byte_order_marks: int = 0
    replaced_lines: int = 0
    first_replaced: int = 0

    def add(self, line: Line) -> None:
        """Count one line."""
        self.lines += 1
        self.carriage_returns += line.had_carriage_return
        self.byte_order_marks += line.had_byte_order_mark
        if line.num_replaced:
            self.replaced_lines += 1
            self.first_replaced = self.first_replaced or line.number

    def notes(self, name: str) -> list[str]:
        """Say, one sentence each, what was done to the file called ``name``."""
        notes = []
        if self.byte_order_marks:
            notes.append(f"{name}: a byte order mark at the start was dropped")
        if self.carriage_returns:
            notes.append(
                f"{name}: {_lines(self.carriage_returns)} of {self.lines:,} ended in "
                "\\r\\n; the \\r was dropped"
            )
        if self.replaced_lines:
            notes.append(
                f"{name}: {_lines(self.replaced_lines)} held bytes that are not UTF-8, "
                f"first line {self.first_replaced:,}; they were replaced by "
                f"{_REPLACEMENT}"
            )
        return notes


def split_lines(
    stream: BinaryIO, *, name: str = "standard input", strict: bool = True
) -> Iterator[Line]:
    """Yield the lines of ``stream``, holding one in memory at a time.

    Undecodable bytes are a ``DataError`` naming file, line and byte when ``strict``,
    else they become U+FFFD. ``name`` stands for the stream in messages.
    """
    for number, raw in enumerate(stream, start=1):
        raw = raw.removesuffix(b"\n")
        had_mark = number == 1 and raw.startswith(_BOM)
        raw = raw[len(_BOM) :] if had_mark else raw
        had_return = raw.endswith(b"\r")
        raw = raw[:-1] if had_return else raw
        num_replaced = 0
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if strict:
                start = error.start + len(_BOM) * had_mark
                raise _undecodable(name, number, raw, start, error) from None
            text = raw.decode("utf-8", "replace")
            # U+FFFD may also stand in the input; its bytes are never part of a mistake.
            num_replaced = text.count(_REPLACEMENT) - raw.count(_REPLACEMENT.encode())
        yield Line(number, text, had_return, had_mark, num_replaced)


def _undecodable(
    name: str, number: int, raw: bytes, start: int, error: UnicodeDecodeError
) -> DataError:
    found = f"0x{raw[error.start]:02x}"
    encoding = "latin1"
    if number == 1 and raw.startswith(_UTF16_BOMS):
        encoding = "utf-16"
    return DataError(
        f"{name}, line {number:,}, byte {start + 1:,} of the line: {found} is not "
        f"valid UTF-8 ({error.reason}); text must be UTF-8. If the file is in another "
        f"encoding, convert it, for example: "
        f"iconv -f {encoding} -t utf-8 {name} > {name}.utf8"
    )


def _lines(count: int) -> str:
    return f"{count:,} line{'s' if count != 1 else ''}"
