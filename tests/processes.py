"""Processes that tests start: their environment, children, and text to keep them busy.

``tests/conftest.py`` has all of them say where they were if they crash.
"""

import contextlib
import os
import random
import time
from pathlib import Path


def environment(**more):
    """Return the environment of a process that computes with a single thread."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def write_slow_text(path):
    """Write text that unigram pieces take minutes to learn of: no white space in it."""
    chance = random.Random(1)
    lines = ["".join(chance.choices("ab", k=40_000)) for _ in range(40)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def busy_child(process):
    """Wait until a child of ``process`` has worked half a second; return its id."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        for child in children.read_text().split():
            if int(status(child)[11]) > 0.5 * os.sysconf("SC_CLK_TCK"):  # user time
                return int(child)
        time.sleep(0.02)
    raise AssertionError("no child of it works")


def is_gone(child):
    """Wait a moment for ``child`` to end; an orphan may stay behind as a zombie."""
    for _ in range(500):
        try:
            if status(child)[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def seconds_to_end(process):
    """Wait for ``process``; return its seconds but those it wanted a processor in vain.

    So that a promise of seconds is tested, and not how busy the machine is.
    """
    began, before, queued = time.monotonic(), _queued(process), 0.0
    while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
        now = _queued(process)
        for thread, seconds in now.items():
            queued += seconds - before.get(thread, 0.0)
        before = now
        time.sleep(0.01)
    return time.monotonic() - began - queued


def _queued(process):
    """Return for how long each thread has waited for a processor so far."""
    found = {}
    for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            found[path.parent.name] = int(path.read_text().split()[1]) / 1e9
    return found


def status(pid):
    """Return the fields after the name in /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
