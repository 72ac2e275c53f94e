"""glibc's allocator: keep freed memory, which makes training on a CPU faster.

By default glibc returns freed big blocks to the system and maps new ones in the next
step; page faults of fresh memory are slow, above all on virtual machines.
"""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Set glibc's malloc to keep freed memory; return whether that succeeded."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    kept = mallopt(M_MMAP_THRESHOLD, NEVER), mallopt(M_TRIM_THRESHOLD, NEVER)
    return all(kept)


def give_back_freed_memory() -> None:
    """Return memory that glibc keeps and does not use to the system."""
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
