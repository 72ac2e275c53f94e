"""SentencePiece learns in a process of its own, since it holds the interpreter.

In ours, no stop signal would be noticed until it is done. The child is given its
options and then line after line through a pipe, and answers with the bytes of a model.
It goes when we stop waiting for it, and also when we are killed.

    stdin    a JSON object of options, then the lines; before each its length
    stdout   one byte, TRAINED or FAILED, and the model or the message
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
from headwise.subprocesses import init_subprocess, start_subprocess

TRAINED = b"+"
FAILED = b"-"

_LENGTH = struct.Struct("<I")
_END = 2**32 - 1
"""A length that no line has: all were sent. A pipe that merely ends broke."""


class SentencePieceError(RuntimeError):
    """What SentencePiece said where it could not learn."""


def train_sentencepiece(options: Mapping[str, Any], lines: Iterable[str]) -> bytes:
    """Return the model that SentencePiece learns of ``lines`` with these options."""
    child = _started()
    try:
        answer = _asked(child, options, lines)
        code = child.wait()
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            _closed(pipe)
    kind, content = answer[:1], answer[1:]
    if kind == FAILED:
        raise SentencePieceError(content.decode("utf-8", "replace"))
    if kind != TRAINED or code:
        raise ResourceError(_ending(code))
    return content


def _started() -> subprocess.Popen[bytes]:
    return start_subprocess(
        __name__,
        "SentencePiece learns",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _asked(
    child: subprocess.Popen[bytes], options: Mapping[str, Any], lines: Iterable[str]
) -> bytes:
    """Send everything and return the answer; a child that fell silent gave none."""
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        _send(child.stdin, json.dumps(options).encode())
        for line in lines:
            _send(child.stdin, line.encode())
        child.stdin.write(_LENGTH.pack(_END))
        child.stdin.flush()
    except BrokenPipeError:
        pass  # why it wants no more is in its answer, or in how it ended
    return child.stdout.read()


def _send(pipe: Any, content: bytes) -> None:
    pipe.write(_LENGTH.pack(len(content)))
    pipe.write(content)


def _closed(pipe: Any) -> None:
    """Close ``pipe``, though what waits in it can reach nobody any more."""
    with suppress(BrokenPipeError):
        pipe.close()


def _ending(code: int) -> str:
    if code == -signal.SIGKILL:
        return (
            "the process in which SentencePiece learned was killed (SIGKILL), as the "
            "system does where memory is short; a smaller text.sample_pairs needs less"
        )
    return (
        f"the process in which SentencePiece learned ended with code {code} and "
        "without a model; what it said stands above"
    )


def main() -> None:
    """Be the child."""
    init_subprocess()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed is no part of the answer
    try:
        content = TRAINED + _learned(sys.stdin.buffer)
    except (RuntimeError, OSError, ValueError) as error:
        content = FAILED + str(error).encode("utf-8", "replace")
    answer.write(content)
    answer.close()


def _learned(pipe: BinaryIO) -> bytes:
    received = _received(pipe)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        **json.loads(next(received)), sentence_iterator=received, model_writer=model
    )
    return model.getvalue()


def _received(pipe: BinaryIO) -> Iterator[bytes]:
    while True:
        head = pipe.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            os._exit(1)  # whoever asked is gone
        (length,) = _LENGTH.unpack(head)
        if length == _END:
            return
        yield pipe.read(length)


if __name__ == "__main__":
    main()
