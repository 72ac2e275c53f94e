"""Let CTranslate2 use the widest instructions of newer processors.

It does so only when a variable of the environment tells it to, which it reads once, as
it opens its first model; without, it stays with AVX2, since older processors lower
their clock for AVX-512. Those that multiply bfloat16 do not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "CT2_FORCE_CPU_ISA"
NEEDED = {f"avx512{each}" for each in ("f", "cd", "bw", "dq", "vl", "_bf16")}


@contextmanager
def wide_instructions(cpuinfo: Path = Path("/proc/cpuinfo")) -> Iterator[None]:
    """Open CTranslate2's first model in this block.

    Where somebody brought the package into this process before, or set the variable,
    their choice stands.
    """
    theirs = "ctranslate2" in sys.modules or VARIABLE in os.environ
    if theirs or not flags(cpuinfo) >= NEEDED:
        yield
        return
    os.environ[VARIABLE] = "AVX512"
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)


def flags(cpuinfo: Path) -> set[str]:
    """Return what the processor can do, where the system tells."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    found = (line.partition(":")[2] for line in lines if line.startswith("flags"))
    return set(next(found, "").split())
