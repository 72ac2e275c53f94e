"""Tests in a process of their own, forked from one that has only imported torch.

To import torch and the test tools takes longer than most tests. So they are imported
once, here, where nothing of headwise is; each run of tests is a fork that begins with
no module of headwise, and imports the mutated ones.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

IMPORTED_ONCE = (
    *("torch", "numpy", "safetensors.torch", "sentencepiece", "sacrebleu", "typer"),
    *("pytest", "hypothesis", "jaxtyping", "beartype", "rich"),
)
PASSED, FAILED = 0, 1


def prepare() -> None:
    """Import what every run of tests needs, and nothing that may be mutated."""
    for name in IMPORTED_ONCE:
        importlib.import_module(name)
    if any(name.split(".")[0] == "headwise" for name in sys.modules):
        raise RuntimeError("headwise was imported before it was mutated")


def outcome_of(
    tests: Sequence[str],
    root: Path,
    *,
    log: Path,
    seconds: int,
    environment: Mapping[str, str],
) -> str:
    """Run tests of the copy in ``root``; return passed, failed, or how it ended."""
    process = os.fork()
    if not process:
        status = 70
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            status = _tests(tests, root, log, environment)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    known = {PASSED: "passed", FAILED: "failed", -signal.SIGKILL: "too slow"}
    return known.get(code, f"ended with {code}")


def _tests(
    tests: Sequence[str], root: Path, log: Path, environment: Mapping[str, str]
) -> int:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(root)
    os.environ.update(environment, PYTHONPATH=f"{root / 'src'}:{root}")
    sys.path[:0] = [str(root / "src"), str(root)]
    sys.dont_write_bytecode = True
    import pytest

    import headwise

    if not Path(headwise.__file__).is_relative_to(root):
        raise RuntimeError(f"headwise was imported from {headwise.__file__}")
    arguments = ["-p", "no:cacheprovider", "-p", "no:xdist", "-x", "-q"]
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*arguments, *tests]))
