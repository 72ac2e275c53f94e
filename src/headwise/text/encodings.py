"""Detect the format of a file from its first bytes: UTF-8, gzip, or unsupported."""

from __future__ import annotations

import gzip
import re
import unicodedata
from contextlib import suppress
from io import BufferedReader, RawIOBase
from typing import BinaryIO, cast

from headwise.errors import DataError

GZIP = b"\x1f\x8b"
"""Magic bytes of gzip, which are not valid UTF-8."""

PEEK_BYTES = 4096
"""Bytes inspected to detect UTF-16 and UTF-32 without a byte order mark."""

_UTF16 = "UTF-16 text"
_UTF32 = "UTF-32 text"

OTHER_FORMATS: tuple[tuple[re.Pattern[bytes], str, str], ...] = tuple(
    (re.compile(start, re.DOTALL), name, remedy)
    for start, name, remedy in (
        (rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", "bzip2", "bzip2 -dc FILE"),
        (rb"\xfd7zXZ\x00", "xz", "xz -dc FILE"),
        (rb"\x28\xb5\x2f\xfd", "Zstandard", "zstd -dc FILE"),
        (rb"\x04\x22\x4d\x18", "LZ4", "lz4 -dc FILE"),
        (rb"PK(\x03\x04|\x05\x06)", "a zip archive", "unzip -p FILE"),
        (rb"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "7z x -so FILE"),
        (rb"PAR1[\x00-\x1f]", "Apache Parquet", "a script that writes JSON Lines"),
        (rb"%PDF-\d", "PDF", "pdftotext FILE -"),
        (rb"\xff\xfe\x00\x00", _UTF32, "iconv -f UTF-32 -t UTF-8 FILE"),
        (rb"\x00\x00\xfe\xff", _UTF32, "iconv -f UTF-32 -t UTF-8 FILE"),
        (rb"\xff\xfe|\xfe\xff", _UTF16, "iconv -f UTF-16 -t UTF-8 FILE"),
    )
)
"""Magic bytes of other formats, their names, and a command that converts them."""

PICTURE = re.compile(rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a")
"""Magic bytes of PNG, JPEG and GIF."""


def open_text(file: BinaryIO, name: str) -> BinaryIO:
    """Return ``file`` for reading, decompressed if it is gzip, whatever its name.

    Raises ``DataError`` if its first bytes are neither gzip nor UTF-8 text.
    """
    if not isinstance(file, BufferedReader):
        file = BufferedReader(cast(RawIOBase, file))
    start = file.peek(PEEK_BYTES)
    if not start.startswith(GZIP):
        check_encoding(start, name)
        return file
    unzipped = gzip.GzipFile(fileobj=file)
    check_encoding(unzipped.peek(PEEK_BYTES), name)
    return cast(BinaryIO, unzipped)


def check_encoding(start: bytes, name: str) -> None:
    """Raise ``DataError`` if the file ``name`` is not UTF-8 text.

    ``start`` is its beginning, up to ``PEEK_BYTES``.
    """
    if PICTURE.match(start):
        raise DataError(
            f"{name} looks like a picture; text must be UTF-8, plain or gzip. Pictures "
            "are read by their paths, one a line, as ls FOLDER/*.png prints them"
        )
    for pattern, found, remedy in OTHER_FORMATS:
        if pattern.match(start):
            raise _not_text(name, found, remedy)
    start = start[:PEEK_BYTES]
    if encoding := _utf32_without_mark(start):
        raise _not_text(name, _UTF32, f"iconv -f {encoding} -t UTF-8 FILE")
    if encoding := _utf16_without_mark(start):
        raise _not_text(name, _UTF16, f"iconv -f {encoding} -t UTF-8 FILE")


def _not_text(name: str, found: str, remedy: str) -> DataError:
    return DataError(
        f"{name} looks like {found}; text must be UTF-8, plain or gzip. Convert it, "
        f"for example with {remedy}"
    )


def _utf32_without_mark(start: bytes) -> str | None:
    """Return the UTF-32 variant of ``start``; None if it is not UTF-32.

    In UTF-32, the first or the last of each four bytes is zero, and mostly its
    neighbour too. UTF-8 text has no zeros, or few.
    """
    start = start[: len(start) // 4 * 4]
    if len(start) < 8:
        return None
    for encoding in ("UTF-32LE", "UTF-32BE"):
        with suppress(UnicodeDecodeError):
            if _has_letters(start.decode(encoding)):
                return encoding
    return None


def _utf16_without_mark(start: bytes) -> str | None:
    """Return the UTF-16 variant of ``start``; None if it is not UTF-16.

    In UTF-16, letters of many scripts, spaces and line ends have one zero byte, always
    at the same position of a pair. UTF-8 text has no zeros, or few at any position.
    """
    start = start[: len(start) // 2 * 2]
    pairs = len(start) // 2
    zeros = {"UTF-16BE": start[::2].count(0), "UTF-16LE": start[1::2].count(0)}
    (_, fewest), (encoding, most) = sorted(zeros.items(), key=lambda item: item[1])
    enough = most >= max(4, pairs / 50) or (pairs >= 3 and most == pairs)
    if fewest or not enough:
        return None
    return encoding if _has_letters(start.decode(encoding, "ignore")) else None


def _has_letters(text: str) -> bool:
    return any(unicodedata.category(each).startswith("L") for each in text)
