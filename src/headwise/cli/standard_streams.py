"""Standard input, output and error, also where they are closed, full, or a pipe."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import BinaryIO, TextIO, cast

from headwise.errors import ResourceError


class ReaderLeftError(Exception):
    """The reader of standard output, such as ``head -1``, closed the pipe."""


class MessageStream(io.TextIOBase):
    """A text stream for messages, which ignores write errors.

    A terminal that was closed, or a full disk under a log of stderr, must not end
    hours of training.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write ``text``; ignore errors."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush; ignore errors."""
        with suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        """Return whether this is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor, by which the width of a terminal is found."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream itself."""
        return self._stream.encoding


def message_stream() -> TextIO:
    """Return standard error as a stream that ignores write errors."""
    return cast(TextIO, MessageStream(sys.stderr))


def open_closed_streams() -> None:
    """Give standard streams that are closed (``<&-``, ``>&-``) a descriptor again.

    Otherwise the next file opened would get the number, and output would go into that
    file. Using a closed stdin or stdout stays an ``OSError`` (EBADF); messages to a
    closed stderr are lost.
    """
    closed = {
        "stdin": (os.O_WRONLY, "r"),
        "stdout": (os.O_RDONLY, "w"),
        "stderr": (os.O_WRONLY, "w"),
    }
    for number, (name, (flags, mode)) in enumerate(closed.items()):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest number, which is this one
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def output(text: str, *, end: str = "\n", flush: bool = True) -> None:
    """Write data to standard output, in UTF-8 whatever the locale is."""
    try:
        # A file name in another encoding is written as its bytes.
        _write_all(sys.stdout.buffer, f"{text}{end}".encode(errors="surrogateescape"))
        if flush:
            sys.stdout.buffer.flush()
    except OSError as error:
        raise output_error(error) from None


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def _write_all(stream: BinaryIO, data: bytes) -> None:
    """Write all of ``data``, or raise an ``OSError``.

    With ``PYTHONUNBUFFERED`` set, as in many containers, standard output has no buffer:
    a write may be partial, and only its return value tells.
    """
    while (taken := stream.write(data)) != len(data):
        if taken is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data = data[taken:]


def flush_output() -> None:
    """Flush standard output."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise output_error(error) from None


def output_error(error: OSError) -> ResourceError | ReaderLeftError:
    """Return what to raise for an error of standard output, and redirect it to null.

    Flushing what is still buffered would otherwise fail again when Python exits.
    """
    with suppress(OSError):  # a stream that is not a file has no descriptor
        handle = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(handle, sys.stdout.fileno())
        finally:
            os.close(handle)
    if isinstance(error, BrokenPipeError):
        return ReaderLeftError()
    return ResourceError(
        f"standard output cannot be written: {error_reason(error)}; redirect it to a "
        "file, a pipe or a terminal (> FILE)"
    )


def error_reason(error: OSError) -> str:
    """Return the message of an error of a standard stream."""
    if error.errno == errno.EBADF:
        return "it is closed"
    return error.strerror or str(error)
