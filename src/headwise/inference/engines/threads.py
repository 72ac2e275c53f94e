"""How many processor threads an engine uses unless it is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
VARIABLES = ("MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""What torch reads as it is imported, the first that is set."""


def num_threads() -> int:
    """Return what torch would use; it is asked only if it is here anyway."""
    if "torch" in sys.modules:
        import torch

        return torch.get_num_threads()
    for name in VARIABLES:
        # OpenMP takes a list of numbers for threads within threads.
        value = os.environ.get(name, "").partition(",")[0].strip()
        if value.isdecimal() and int(value):
            return int(value)
    return cores()


def cores(folder: Path = CPUS) -> int:
    """Count the cores that this process may use, two threads of one core as one."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    return len({_core(folder, number) for number in os.sched_getaffinity(0)})


def _core(folder: Path, number: int) -> str:
    """Return what all threads of a core have in common; else the thread's number."""
    siblings = folder / f"cpu{number}" / "topology" / "thread_siblings_list"
    try:
        return siblings.read_text(encoding="ascii").strip()
    except OSError:
        return str(number)
