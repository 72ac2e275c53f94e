"""What this machine is, and how fast its matrix products are at best.

python -m training.machine      measure products in this process, print JSON
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

PRODUCT = 2048
"""Rows, columns and depth of the large product: 2048³ multiplications."""

FLAGS = "avx2 avx512f avx512_bf16 avx512_fp16 avx_vnni amx_bf16 amx_int8 amx_tile"


def facts() -> dict[str, Any]:
    """Describe the processor; what the system does not tell is left out."""
    found: dict[str, Any] = {
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "load_before": round(os.getloadavg()[0], 2),
    }
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return found | {"processor": platform.processor()}
    told = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in lines)
    }
    flags = told.get("flags", "").split()
    return found | {
        "processor": told.get("model name", platform.processor()),
        "flags": [flag for flag in FLAGS.split() if flag in flags],
    }


def product_rates(seconds: float = 2.0) -> dict[str, float]:
    """Return floating-point operations a second of large products, the median."""
    import torch

    rates = {}
    for name, dtype in (("float32", torch.float32), ("bf16", torch.bfloat16)):
        left = torch.randn(PRODUCT, PRODUCT).to(dtype)
        right = torch.randn(PRODUCT, PRODUCT).to(dtype)
        out = left @ right
        times = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 3:
            started = time.perf_counter()
            torch.mm(left, right, out=out)
            times.append(time.perf_counter() - started)
        rates[name] = 2 * PRODUCT**3 / statistics.median(times)
    return rates


if __name__ == "__main__":
    print(json.dumps(product_rates()))
