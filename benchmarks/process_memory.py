"""Memory of a process and all that it started; what several of them share counts once.

Linux tells the proportional set size (PSS) of a process: a page that n processes see
counts 1/n for each, so that the sum over a tree of processes is the memory they take,
as a control group would count it. Needs only Python.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from pathlib import Path

EVERY = 0.02
"""Seconds between two looks, unless something else is said."""


def tree(pid: int) -> list[int]:
    """Return a process and its descendants that live now, parents first."""
    found = [pid]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, _text(children).split())
    return found


def held(pids: list[int]) -> dict[int, int]:
    """Return the PSS of each process in bytes; 0 for one that has ended."""
    return {
        pid: _sizes(Path(f"/proc/{pid}/smaps_rollup")).get("Pss", 0) for pid in pids
    }


class Watch:
    """Looks at a tree of processes again and again, from another process.

    What is held between two looks only is missed; a process that keeps freed memory,
    as training does, holds its peak for long.
    """

    def __init__(self, pid: int, *, every: float = EVERY) -> None:
        self.peak = 0
        """The most that all held together, in bytes."""

        self.processes: dict[int, int] = {}
        """What each held then."""

        self._pid = pid
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.is_set():
            started = time.perf_counter()
            found = held(tree(self._pid))
            if sum(found.values()) > self.peak:
                self.peak, self.processes = sum(found.values()), found
            # A look holds up those that are looked at: no more than a tenth of the time
            self._ended.wait(max(self._every, 9 * (time.perf_counter() - started)))


def run_watched(command: list[str]) -> tuple[list[str], Watch]:
    """Run a command; return the lines it prints, and the memory that it took.

    Exits with a message if the command fails.
    """
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        Watch(process.pid) as watch,
    ):
        assert process.stdout is not None
        said = process.stdout.read().splitlines()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}")
    return said, watch


def peak_of(pid: int) -> int:
    """Return the most that a process and its living children held, in bytes.

    Of each the highest resident size, though they may have had it at different moments;
    of the children only what is theirs alone, not files and memory that are shared.
    """
    own, *others = (_sizes(Path(f"/proc/{each}/status")) for each in tree(pid))
    shared = [each.get("RssFile", 0) + each.get("RssShmem", 0) for each in others]
    alone = [
        max(0, each.get("VmHWM", 0) - size)
        for each, size in zip(others, shared, strict=True)
    ]
    return own.get("VmHWM", 0) + sum(alone)


def _sizes(path: Path) -> dict[str, int]:
    found = re.findall(r"^(\w+):\s+(\d+) kB$", _text(path), re.M)
    return {name: 1024 * int(size) for name, size in found}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:  # it has ended
        return ""
