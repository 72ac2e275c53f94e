"""The default number of threads of an engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
VARIABLES = ("MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""Environment variables that torch reads when imported; the first one set counts."""


def num_threads() -> int:
    """Return the number that torch uses, without importing torch for it."""
    if "torch" in sys.modules:
        import torch

        return torch.get_num_threads()
    for name in VARIABLES:
        # OpenMP allows a list, for nested parallelism.
        value = os.environ.get(name, "").partition(",")[0].strip()
        if value.isdecimal() and int(value):
            return int(value)
    return cores()


def cores(folder: Path = CPUS) -> int:
    """Count the physical cores that this process may use."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    return len({_core(folder, number) for number in os.sched_getaffinity(0)})


def _core(folder: Path, number: int) -> str:
    """Return an id that all hardware threads of a core share."""
    siblings = folder / f"cpu{number}" / "topology" / "thread_siblings_list"
    try:
        return siblings.read_text(encoding="ascii").strip()
    except OSError:
        return str(number)
