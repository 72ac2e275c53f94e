"""Processes of our own that do part of the work, and go when we go."""

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
    """Run ``module`` in a process that imports what we do; it calls :func:`init_subprocess`.

    ``handles`` are the file descriptors that it gets besides ``pipes``.
    """
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(os.getpid()), *arguments],
            env={**os.environ, **(environment or {}), "PYTHONPATH": path},
            pass_fds=tuple(handles),
            process_group=0,  # so that a Ctrl-C of the terminal is ours alone
            **pipes,
        )
    except OSError as error:
        raise ResourceError(
            f"{purpose} in a process of its own, and none could be started "
            f"with {sys.executable or 'no name of a Python'}: "
            f"{error.strerror or error}"
        ) from error


def init_subprocess() -> list[str]:
    """Let only the parent's end be ours: it decides what a signal means.

    Returns the arguments that it gave.
    """
    parent, *arguments = sys.argv[1:]
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        os._exit(1)
    return arguments
