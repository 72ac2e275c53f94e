"""Subprocesses that run a module of headwise, and die with their parent.

A subprocess runs this module first, which needs no torch, and so dies with its parent
from its first moments on; to import torch takes seconds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from headwise.errors import ResourceError

_PR_SET_PDEATHSIG = 1


def start_subprocess(
    module: str,
    purpose: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    handles: Sequence[int] = (),
    **pipes: Any,
) -> subprocess.Popen[bytes]:
    """Run ``module`` as ``__main__``, with the same ``sys.path``; stop signals pass by.

    The parent alone handles signals. ``arguments`` are ``sys.argv[1:]`` of the module,
    ``purpose`` starts the error message, and ``handles`` are file descriptors that it
    inherits besides ``pipes``. Raises ``ResourceError`` if it cannot be started.
    """
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    try:
        return subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", __name__),
                *(str(os.getpid()), module, *arguments),
            ],
            env={**os.environ, **(environment or {}), "PYTHONPATH": path},
            pass_fds=tuple(handles),
            process_group=0,  # so that Ctrl-C is sent to the parent only
            **pipes,
        )
    except OSError as error:
        raise ResourceError(
            f"{purpose} in a subprocess, which could not be started with "
            f"{sys.executable or 'an unknown Python'}: {error.strerror or error}"
        ) from error


def main() -> None:
    """Ignore stop signals, die with the parent, and become the module that it named."""
    parent, *command = sys.argv[1:]
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        os._exit(1)
    # Both outlive it: execve keeps ignored signals (POSIX) and the signal of prctl(2).
    os.execv(sys.executable, [sys.executable, "-P", "-m", *command])


if __name__ == "__main__":
    main()
