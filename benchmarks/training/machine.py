"""How fast the matrix products of this machine are at best.

python -m training.machine [SIZE]    measure products in this process, print JSON
"""

from __future__ import annotations

import json
import statistics
import sys
import time

PRODUCT = 2048
"""Rows, columns and depth of the large product: 2048³ multiplications."""


def product_rates(size: int = PRODUCT, seconds: float = 2.0) -> dict[str, float]:
    """Return floating-point operations a second of large products, the median."""
    import torch

    rates = {}
    for name, dtype in (("float32", torch.float32), ("bf16", torch.bfloat16)):
        left = torch.randn(size, size).to(dtype)
        right = torch.randn(size, size).to(dtype)
        out = left @ right
        times = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 3:
            started = time.perf_counter()
            torch.mm(left, right, out=out)
            times.append(time.perf_counter() - started)
        rates[name] = 2 * size**3 / statistics.median(times)
    return rates


if __name__ == "__main__":
    print(json.dumps(product_rates(*map(int, sys.argv[1:]))))
