"""Measure the matmul of the native library beside those of PyTorch and NumPy.

python benchmarks/matmul.py
python benchmarks/matmul.py --variant v3
python benchmarks/matmul.py --libxsmm libxsmm.so --onednn libdnnl.so --blis libblis.so

The shapes are those of a training step and of a decoding step of ``tiny`` and ``base``:
x [rows, inputs] times a matrix [inputs, outputs] that is packed beforehand, as weights
are; "native, bf16" rounds both to bfloat16. One thread. libxsmm, oneDNN and BLIS take
part where their shared libraries are named; Debian has them (of libxsmm only the
archive, of which a linker makes one). Each library repeats a product for some time, in
turn, round after round; what counts is its best time in a round, as processor time of
the thread, so that other work on the machine counts little. The medians over the
rounds, in GFLOP/s, go to benchmarks/results/matmul.json.
"""

from __future__ import annotations

import argparse
import ctypes
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


def native_bf16(rows: int, inputs: int, outputs: int) -> Callable[[], object]:
    """Return the product of bfloat16 numbers by the native library."""
    from headwise.backends.native.ctypes_structs import BF16
    from headwise.doctor.native_backend_checks import native_matmul

    return native_matmul(rows, inputs, outputs, BF16)


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


def libxsmm(library: ctypes.CDLL) -> Callable[..., Callable[[], object]]:
    """Return a maker of products by the code that libxsmm writes for each shape."""
    library.libxsmm_smmdispatch.restype = ctypes.c_void_p
    function = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 3)

    def make(rows: int, inputs: int, outputs: int) -> Callable[[], object]:
        x, weight, y = _arrays(rows, inputs, outputs)
        zero, no_flags = ctypes.c_float(0), ctypes.c_int(0)
        # It has columns side by side: the transpose of all three.
        written = library.libxsmm_smmdispatch(
            *(outputs, rows, inputs, None, None, None, None),
            *(ctypes.byref(zero), ctypes.byref(no_flags), None),
        )
        if not written:
            raise SystemExit(f"libxsmm has no code for {rows, inputs, outputs}")
        multiply = function(written)
        places = weight.ctypes.data, x.ctypes.data, y.ctypes.data
        return _checked(lambda: multiply(*places), x, weight, y)

    return make


def onednn(library: ctypes.CDLL) -> Callable[..., Callable[[], object]]:
    """Return a maker of products by oneDNN."""
    size, number, place = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
    library.dnnl_sgemm.argtypes = (
        *(ctypes.c_char, ctypes.c_char, size, size, size, number, place, size),
        *(place, size, number, place, size),
    )

    def make(rows: int, inputs: int, outputs: int) -> Callable[[], object]:
        x, weight, y = _arrays(rows, inputs, outputs)
        arguments = (
            *(b"N", b"N", rows, outputs, inputs, 1.0, x.ctypes.data, inputs),
            *(weight.ctypes.data, outputs, 0.0, y.ctypes.data, outputs),
        )
        return _checked(lambda: library.dnnl_sgemm(*arguments), x, weight, y)

    return make


def blis(library: ctypes.CDLL) -> Callable[..., Callable[[], object]]:
    """Return a maker of products by BLIS."""
    size, number, place = ctypes.c_int, ctypes.c_float, ctypes.c_void_p
    library.cblas_sgemm.argtypes = (
        *(size, size, size, size, size, size, number, place, size),
        *(place, size, number, place, size),
    )

    def make(rows: int, inputs: int, outputs: int) -> Callable[[], object]:
        x, weight, y = _arrays(rows, inputs, outputs)
        row_major, plain = 101, 111
        arguments = (
            *(row_major, plain, plain, rows, outputs, inputs, 1.0, x.ctypes.data),
            *(inputs, weight.ctypes.data, outputs, 0.0, y.ctypes.data, outputs),
        )
        return _checked(lambda: library.cblas_sgemm(*arguments), x, weight, y)

    return make


def _arrays(rows: int, inputs: int, outputs: int) -> Any:
    import numpy as np

    chance = np.random.default_rng(1)
    x = chance.standard_normal((rows, inputs), np.float32)
    weight = chance.standard_normal((inputs, outputs), np.float32)
    return x, weight, np.empty((rows, outputs), np.float32)


def _checked(
    multiply: Callable[[], object], x: Any, weight: Any, y: Any
) -> Callable[[], object]:
    """Return ``multiply``, which holds the arrays, once its result has been checked."""
    import numpy as np

    multiply()
    np.testing.assert_allclose(y, x @ weight, atol=1e-2)
    return lambda: (multiply(), x, weight, y)


LIBRARIES = {
    "native": native,
    "native, bf16": native_bf16,
    "PyTorch": pytorch,
    "NumPy": numpy,
}
OTHERS = {"libxsmm": libxsmm, "oneDNN": onednn, "BLIS": blis}
"""Those whose shared library is named by an option."""


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
    for each in OTHERS:
        parser.add_argument(f"--{each.lower()}", help="its shared library")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.variant:
        os.environ["HEADWISE_NATIVE"] = arguments.variant
    rounds, seconds = (1, 0.005) if arguments.rehearse else (arguments.rounds, 0.1)
    measurement = Measurement.begin(["src/headwise/backends/native/**/*"])
    import torch

    torch.set_num_threads(1)
    libraries = dict(LIBRARIES)
    for each, of in OTHERS.items():
        if path := getattr(arguments, each.lower()):
            libraries[each] = of(ctypes.CDLL(path))
    report: dict[str, Any] = {}
    for name, shape in SHAPES.items():
        products = {each: make(*shape) for each, make in libraries.items()}
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
    for each in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
    ):
        os.environ.setdefault(each, "1")
    sys.exit(main())
