"""Subprocesses that run a module of headwise, and die with their parent."""

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
    """Run ``module`` with the same ``sys.path``; it calls :func:`init_subprocess`.

    ``purpose`` starts the error message; ``handles`` are file descriptors that it
    inherits besides ``pipes``. Raises ``ResourceError`` if it cannot be started.
    """
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(os.getpid()), *arguments],
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


def init_subprocess() -> list[str]:
    """Ignore stop signals and die with the parent; return the arguments.

    The parent alone handles signals.
    """
    parent, *arguments = sys.argv[1:]
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        os._exit(1)
    return arguments
