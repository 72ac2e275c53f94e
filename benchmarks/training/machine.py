"""How fast the matrix products of this machine are at best.

python -m training.machine SIZE PRECISION…    measure products here, print JSON
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence

PRODUCT = 2048
"""Rows, columns and depth of the large product: 2048³ multiplications."""


def product_rates(
    size: int, precisions: Sequence[str], seconds: float = 2.0
) -> dict[str, float]:
    """Return floating-point operations a second of large products, the median.

    Only of these precisions: without instructions for it bf16 takes minutes.
    """
    import torch

    dtypes = {"float32": torch.float32, "bf16": torch.bfloat16}
    rates = {}
    for name in precisions:
        dtype = dtypes[name]
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
    print(json.dumps(product_rates(int(sys.argv[1]), sys.argv[2:])))
