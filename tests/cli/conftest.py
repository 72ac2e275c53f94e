"""The command line, called as a user calls it."""

import io
import subprocess
import sys
from dataclasses import dataclass

import pytest
from tests.processes import environment

from headwise.__main__ import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    error: str


@pytest.fixture
def headwise(monkeypatch, capsysbinary):
    """Run the command line in this process."""

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["headwise", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ending:
            code = ending.code or 0
        out, error = (each.decode("utf-8") for each in capsysbinary.readouterr())
        assert "Traceback" not in error
        return Outcome(code, out, error)

    monkeypatch.delenv("HEADWISE_DEBUG", raising=False)
    return call


@pytest.fixture
def start():
    """Start the command line in a process of its own."""
    started = []

    def call(*arguments, **how):
        process = subprocess.Popen(
            [sys.executable, "-m", "headwise", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            **how,
        )
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
