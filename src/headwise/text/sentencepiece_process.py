"""Train SentencePiece in a subprocess, since it holds the GIL.

In this process, no stop signal would be handled until it is done. The subprocess reads
options and lines from a pipe, and writes the model. It is killed when this process
stops waiting or dies.

    stdin    a JSON object of options, then the lines, each after its length
    stdout   one byte, TRAINED or FAILED, then the model or the message
"""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

import sentencepiece

from headwise.errors import ResourceError
from headwise.subprocesses import start_subprocess

TRAINED = b"+"
FAILED = b"-"

_LENGTH = struct.Struct("<I")
_END = 2**32 - 1
"""Length that marks the end of the lines; a pipe that just ends is broken."""


class SentencePieceError(RuntimeError):
    """SentencePiece failed; the message is its own."""


def train_sentencepiece(options: Mapping[str, Any], lines: Iterable[str]) -> bytes:
    """Train SentencePiece on ``lines``; return the model as bytes.

    Raises ``SentencePieceError``, or ``ResourceError`` if the process was killed.
    """
    child = _start()
    try:
        answer = _communicate(child, options, lines)
        code = child.wait()
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            _close(pipe)
    kind, content = answer[:1], answer[1:]
    if kind == FAILED:
        raise SentencePieceError(content.decode("utf-8", "replace"))
    if kind != TRAINED or code:
        raise ResourceError(_exit_message(code))
    return content


def _start() -> subprocess.Popen[bytes]:
    return start_subprocess(
        __name__,
        "SentencePiece training runs",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _communicate(
    child: subprocess.Popen[bytes], options: Mapping[str, Any], lines: Iterable[str]
) -> bytes:
    """Send everything; return the answer, empty if the subprocess died."""
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        _send(child.stdin, json.dumps(options).encode())
        for line in lines:
            _send(child.stdin, line.encode())
        child.stdin.write(_LENGTH.pack(_END))
        child.stdin.flush()
    except BrokenPipeError:
        pass  # its answer or exit code tells why
    return child.stdout.read()


def _send(pipe: Any, content: bytes) -> None:
    pipe.write(_LENGTH.pack(len(content)))
    pipe.write(content)


def _close(pipe: Any) -> None:
    """Close ``pipe``, even if the other end is closed."""
    with suppress(BrokenPipeError):
        pipe.close()


def _exit_message(code: int) -> str:
    if code == -signal.SIGKILL:
        return (
            "SentencePiece training was killed (SIGKILL), probably because memory ran "
            "out; a smaller text.sample_pairs needs less"
        )
    return (
        f"SentencePiece training exited with code {code} and without a model; its "
        "messages are above"
    )


def main() -> None:
    """Run the subprocess."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep other output out of the answer
    try:
        content = TRAINED + _train(sys.stdin.buffer)
    except (RuntimeError, OSError, ValueError) as error:
        content = FAILED + str(error).encode("utf-8", "replace")
    answer.write(content)
    answer.close()


def _train(pipe: BinaryIO) -> bytes:
    received = _receive(pipe)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        **json.loads(next(received)), sentence_iterator=received, model_writer=model
    )
    return model.getvalue()


def _receive(pipe: BinaryIO) -> Iterator[bytes]:
    while True:
        head = pipe.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            os._exit(1)  # the parent process has died
        (length,) = _LENGTH.unpack(head)
        if length == _END:
            return
        yield pipe.read(length)


if __name__ == "__main__":
    main()
