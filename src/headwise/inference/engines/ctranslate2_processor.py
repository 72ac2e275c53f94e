"""Let CTranslate2 use AVX-512 on processors where that is faster.

It does so only if an environment variable says so, which it reads once, when it opens
its first model. By default it uses AVX2, since older processors lower their clock for
AVX-512; those with AVX512_BF16 do not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "CT2_FORCE_CPU_ISA"
REQUIRED_FLAGS = {f"avx512{each}" for each in ("f", "cd", "bw", "dq", "vl", "_bf16")}


@contextmanager
def avx512_enabled(cpuinfo: Path = Path("/proc/cpuinfo")) -> Iterator[None]:
    """Set the variable inside the block, which opens CTranslate2's first model.

    Does nothing if the package was imported before or the variable is set already.
    """
    already_chosen = "ctranslate2" in sys.modules or VARIABLE in os.environ
    if already_chosen or not flags(cpuinfo) >= REQUIRED_FLAGS:
        yield
        return
    os.environ[VARIABLE] = "AVX512"
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)


def flags(cpuinfo: Path) -> set[str]:
    """Return the CPU flags that Linux lists; empty on other systems."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    found = (line.partition(":")[2] for line in lines if line.startswith("flags"))
    return set(next(found, "").split())
