"""The sweep's end of a trial that runs in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from typing import IO, Any

from headwise.errors import Stopped
from headwise.subprocesses import start_subprocess
from headwise.sweep.ledger import Trial

MODULE = "headwise.sweep.trial_process"

READ_BYTES = 1 << 16

LAST_LINES = 3
"""Lines of standard error that are shown of a process that died."""


class RunningTrial:
    """A process that trains ``trial``, with its pipes."""

    def __init__(self, trial: Trial, order: dict[str, Any]) -> None:
        self.trial = trial
        self.has_ended = False
        """Whether a message said how training ended."""

        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._last_lines = ""
        self._rest = b""
        self.process = start_subprocess(
            MODULE,
            "A trial runs",
            environment={"OMP_NUM_THREADS": str(order["threads"])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.answer(json.dumps(order))

    @property
    def reports(self) -> IO[bytes]:
        """The pipe that its messages come from."""
        assert self.process.stdout is not None
        return self.process.stdout

    def read(self) -> list[dict[str, Any]] | None:
        """Return the messages that have come; None at the end of the pipe."""
        data = os.read(self.reports.fileno(), READ_BYTES)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def answer(self, text: str) -> None:
        """Send a line; a process that has died is noticed at the end of its pipe."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            self.process.stdin.write(f"{text}\n".encode())
            self.process.stdin.flush()

    def stop(self) -> None:
        """Let it save and end; nothing waits for an answer any more."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.send_signal(signal.SIGTERM)

    def close(self) -> int:
        """Wait for its end; return the exit code."""
        code = self.process.wait()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.reports.close()
        with self._errors:
            self._errors.seek(0)
            lines = self._errors.read().decode("utf-8", "replace").strip().split("\n")
        self._last_lines = " / ".join(filter(None, lines[-LAST_LINES:]))
        return code

    def death(self, code: int) -> str:
        """Return why a process that ended without saying so did, once it is closed."""
        if code == -signal.SIGKILL:
            reason = "its process was killed (SIGKILL), as where memory is short"
        elif code < 0:
            reason = f"its process was ended by {signal.Signals(-code).name}"
        else:
            reason = f"its process ended with exit code {code}"
        return f"{reason}: {self._last_lines}" if self._last_lines else reason


def was_interrupted(code: int) -> bool:
    """Return whether an exit code means that all is saved."""
    return code in (Stopped.exit_code, -signal.SIGTERM)
