"""CPU cores that this process may use: affinity, and limits of a container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath


def allowed_cores(
    proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")
) -> float:
    """Return the number of cores; a container may allow a fraction of one."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return min([float(cores), *_limits(proc, cgroups)])


def _limits(proc: Path, cgroups: Path) -> Iterator[float]:
    """Yield the CPU quota, in cores, of each control group of this process.

    A container may see its own group at the root, so the root is read as well.
    """
    lines: list[str] = []
    with suppress(OSError):
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, controllers, name = line.split(":", 2)
        inner = PurePosixPath(name.lstrip("/"))
        for group in (inner, *inner.parents):
            with suppress(OSError, ValueError, ZeroDivisionError):  # "max", or no limit
                if not controllers:
                    found = (cgroups / group / "cpu.max").read_text(encoding="utf-8")
                    quota, period = map(int, found.split())
                elif "cpu" in controllers.split(","):
                    folder = cgroups / "cpu" / group
                    quota = int((folder / "cpu.cfs_quota_us").read_text())
                    period = int((folder / "cpu.cfs_period_us").read_text())
                else:
                    continue
                if quota > 0:
                    yield quota / period
