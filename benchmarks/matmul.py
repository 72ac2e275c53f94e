"""Measure the matmul of the native library beside those of PyTorch and NumPy.

python benchmarks/matmul.py
python benchmarks/matmul.py --variant v3

The shapes are those of a training step and of a decoding step of ``tiny`` and ``base``:
x [rows, inputs] times a matrix [inputs, outputs] that is packed beforehand, as weights
are. One thread. Each library repeats a product for some time, in turn, round after
round; what counts is its best time in a round, as processor time of the thread, so that
other work on the machine counts little. The medians over the rounds, in GFLOP/s, go to
benchmarks/results/matmul.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from result_file import Measurement, add_options, place_of

RESULTS = Path(__file__).parent / "results" / "matmul.json"

SHAPES = {
    "tiny, keys and values": (256, 128, 384),
    "tiny, feed-forward, expand": (256, 128, 512),
    "tiny, feed-forward, project": (256, 512, 128),
    "tiny, scores of 1,024 tokens": (256, 128, 1024),
    "tiny, one row": (1, 128, 384),
    "tiny, a beam of 4": (4, 128, 384),
    "base, keys and values": (1024, 512, 1536),
    "base, feed-forward, expand": (1024, 512, 2048),
    "base, feed-forward, project": (1024, 2048, 512),
    "base, one row": (1, 512, 1536),
    "base, a beam of 4": (4, 512, 1536),
}
"""Rows, inputs, outputs."""


def native(rows: int, inputs: int, outputs: int) -> Callable[[], object]:
    """Return the product by the native library."""
    from headwise.doctor.native_backend_checks import native_matmul

    return native_matmul(rows, inputs, outputs)


def pytorch(rows: int, inputs: int, outputs: int) -> Callable[[], object]:
    """Return the product as ``torch.nn.Linear`` does it, without a bias."""
    import torch

    x, weight = torch.ones(rows, inputs), torch.ones(outputs, inputs)
    y = torch.empty(rows, outputs)
    return lambda: torch.mm(x, weight.T, out=y)


def numpy(rows: int, inputs: int, outputs: int) -> Callable[[], object]:
    """Return the product by NumPy's BLAS."""
    import numpy as np

    x, weight = np.ones((rows, inputs), np.float32), np.ones((inputs, outputs), "f4")
    y = np.empty((rows, outputs), np.float32)
    return lambda: np.matmul(x, weight, out=y)


LIBRARIES = {"native": native, "PyTorch": pytorch, "NumPy": numpy}


def best_seconds(multiply: Callable[[], object], seconds: float) -> float:
    """Return the least processor time of one product."""
    multiply()
    best, end = float("inf"), time.thread_time() + seconds
    while (began := time.thread_time()) < end:
        multiply()
        best = min(best, time.thread_time() - began)
    return best


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--variant", help="of the native library")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.variant:
        os.environ["HEADWISE_NATIVE"] = arguments.variant
    rounds, seconds = (1, 0.005) if arguments.rehearse else (arguments.rounds, 0.1)
    measurement = Measurement.begin(["src/headwise/backends/native/**/*"])
    import torch

    torch.set_num_threads(1)
    report: dict[str, Any] = {}
    for name, shape in SHAPES.items():
        products = {each: make(*shape) for each, make in LIBRARIES.items()}
        found: dict[str, list[float]] = {each: [] for each in products}
        for _ in range(rounds):
            for each, multiply in products.items():
                found[each].append(best_seconds(multiply, seconds))
        operations = 2 * shape[0] * shape[1] * shape[2] / 1e9
        rates = {
            each: round(operations / statistics.median(taken), 1)
            for each, taken in found.items()
        }
        report[name] = {"shape": shape, "gflops": rates}
        print(f"{name} {shape}: {rates}", flush=True)
    measurement.write(place_of(arguments), {"rows": report})


if __name__ == "__main__":
    for each in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(each, "1")
    sys.exit(main())
