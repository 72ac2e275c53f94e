r"""Lines of a byte stream: split at ``\n`` only, and decoded as UTF-8.

Python's text files also split lines at ``\r``, and ``str.splitlines`` at U+0085, U+2028
and others, which occur inside sentences of real corpora. Here N line ends give N lines,
and a last line without ``\n`` counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headwise.errors import DataError
from headwise.wording import count_of

_BOM = b"\xef\xbb\xbf"
_REPLACEMENT = "\ufffd"
_NUL = "\0"
_BREAKS = re.compile("(\r?\n)")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text, and what was changed in decoding it."""

    number: int
    """Line number, counted from 1."""

    text: str
    """The text without line end."""

    had_carriage_return: bool = False
    """A final ``\\r`` was dropped."""

    has_lone_returns: bool = False
    """The text contains a ``\\r``, the line end of old Macs."""

    had_byte_order_mark: bool = False
    """A byte order mark at the start of the file was dropped."""

    num_replaced: int = 0
    """Number of invalid byte sequences replaced by U+FFFD."""


@dataclass(slots=True)
class LineTally:
    """Counts changes and NUL characters over all lines, for one message per kind."""

    lines: int = 0
    carriage_returns: int = 0
    byte_order_marks: int = 0
    lone_returns: int = 0
    first_lone_return: int = 0
    replaced_lines: int = 0
    first_replaced: int = 0
    nul_lines: int = 0
    first_nul: int = 0

    def add(self, line: Line) -> None:
        """Count one line."""
        self.lines += 1
        self.carriage_returns += line.had_carriage_return
        self.byte_order_marks += line.had_byte_order_mark
        if line.has_lone_returns:
            self.lone_returns += 1
            self.first_lone_return = self.first_lone_return or line.number
        if line.num_replaced:
            self.replaced_lines += 1
            self.first_replaced = self.first_replaced or line.number
        if _NUL in line.text:
            self.nul_lines += 1
            self.first_nul = self.first_nul or line.number

    def notes(self, name: str) -> list[str]:
        """Return a message for each kind that the file ``name`` has."""
        notes = []
        if self.byte_order_marks:
            notes.append(f"{name}: a byte order mark at the start was dropped")
        if self.carriage_returns:
            ended = count_of(self.carriage_returns, "line")
            notes.append(
                f"{name}: {ended} of {self.lines:,} ended in \\r\\n; the \\r "
                "was dropped"
            )
        if self.lone_returns:
            lines = count_of(self.lone_returns, "line")
            notes.append(
                f"{name}: {lines} with \\r without \\n, which does not end a line, "
                f"first line {self.first_lone_return:,}; if it should: {MAKE_NEWLINES}"
            )
        if self.replaced_lines:
            lines = count_of(self.replaced_lines, "line")
            notes.append(
                f"{name}: {lines} with bytes that are not UTF-8, "
                f"first line {self.first_replaced:,}; they were replaced by "
                f"{_REPLACEMENT}"
            )
        if self.nul_lines:
            lines = count_of(self.nul_lines, "line")
            notes.append(
                f"{name}: {lines} with NUL characters, which most tokenizers drop or "
                f"read as unknown, first line {self.first_nul:,}; to delete them: "
                f"{DELETE_NULS}"
            )
        return notes


def split_at_breaks(text: str) -> tuple[list[str], list[str]]:
    r"""Return the lines of a text, and the line break, ``\n`` or ``\r\n``, after each.

    There is none after the last line.
    """
    parts = _BREAKS.split(text)
    return parts[::2], parts[1::2]


def without_break(line: str) -> str:
    r"""Return a line without ``\n`` or ``\r\n`` at its end."""
    return line.removesuffix("\n").removesuffix("\r") if line[-1:] == "\n" else line


def join_at_breaks(lines: Sequence[str], breaks: Sequence[str]) -> str:
    """Return the text with these lines, and the line break after each but the last."""
    ended = zip(lines, [*breaks, ""], strict=True)
    return "".join(line + line_break for line, line_break in ended)


def split_lines(
    raw_lines: Iterable[bytes],
    *,
    name: str = "standard input",
    strict: bool = True,
    refuse_old_mac: bool = True,
) -> Iterator[Line]:
    r"""Yield the lines of a binary file.

    Invalid UTF-8 raises ``DataError`` with file, line and byte if ``strict``, else it
    is replaced by U+FFFD. With ``refuse_old_mac``, a file whose lines end in ``\r``
    only raises ``DataError``, else it is one line. ``name`` is the file in messages.
    """
    for number, raw in enumerate(raw_lines, start=1):
        yield decode_line(
            raw, number, name=name, strict=strict, refuse_old_mac=refuse_old_mac
        )


def decode_line(
    raw: bytes, number: int, *, name: str, strict: bool, refuse_old_mac: bool
) -> Line:
    """Return line ``number`` of a file, as :func:`split_lines` does."""
    is_ended = raw.endswith(b"\n")
    raw = raw.removesuffix(b"\n")
    had_mark = number == 1 and raw.startswith(_BOM)
    raw = raw[len(_BOM) :] if had_mark else raw
    had_return = raw.endswith(b"\r")
    raw = raw[:-1] if had_return else raw
    lone_returns = raw.count(b"\r")
    if lone_returns and number == 1 and not is_ended and refuse_old_mac:
        raise _old_mac(name, lone_returns + had_return)
    num_replaced = 0
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if strict:
            start = error.start + len(_BOM) * had_mark
            raise _undecodable(name, number, raw, start, error) from None
        text = raw.decode("utf-8", "replace")
        # U+FFFD may be in the input too; its bytes are never an invalid sequence.
        num_replaced = text.count(_REPLACEMENT) - raw.count(_REPLACEMENT.encode())
    return Line(
        number,
        text,
        had_return and is_ended,
        bool(lone_returns) or (had_return and not is_ended),
        had_mark,
        num_replaced,
    )


DELETE_NULS = "tr -d '\\0' < FILE > NEW"
MAKE_NEWLINES = "tr '\\r' '\\n' < FILE > NEW"


def _old_mac(name: str, count: int) -> DataError:
    return DataError(
        f"{name} has no \\n, but {count:,} \\r (line end of old Macs); lines must end "
        f"in \\n or \\r\\n: convert it, for example: {MAKE_NEWLINES}"
    )


def _undecodable(
    name: str, number: int, raw: bytes, start: int, error: UnicodeDecodeError
) -> DataError:
    found = f"0x{raw[error.start]:02x}"
    return DataError(
        f"{name}, line {number:,}, byte {start + 1:,} of the line: {found} is not "
        f"valid UTF-8 ({error.reason}); text must be UTF-8. If the file is in another "
        f"encoding, convert it, for example: "
        f"iconv -f latin1 -t utf-8 {name} > {name}.utf8"
    )
