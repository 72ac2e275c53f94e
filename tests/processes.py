"""Children of other processes, as Linux shows them; and text that keeps one busy."""

import os
import random
import time
from pathlib import Path


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


def status(pid):
    """Return the fields after the name in /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
