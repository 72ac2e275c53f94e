"""Check which native library (C) is loaded here, and where it is used."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from ctypes import byref

import numpy as np
from numpy.typing import NDArray

from headwise.backends.native.ctypes_structs import (
    ALIGNMENT,
    BF16,
    FLOAT32,
    MatmulOptions,
    Matrix,
)
from headwise.backends.native.functions import kernels
from headwise.backends.native.library import NativeLibraryError, build, description
from headwise.backends.native.measured_speed import ranked
from headwise.doctor.check import FAILED, NOTE, OK, Check
from headwise.errors import UsageError


def check_native_backend() -> Check:
    """Load the native library, and measure it."""
    what = "native backend"
    try:
        said = f"{description()}; {matmul_rates()}"
        return Check(what, OK, f"{said}; {backends_used()}")
    except NativeLibraryError as error:
        advice = "translations are the same without it, but take longer"
        return Check(what, NOTE, str(error), advice)
    except UsageError as error:
        return Check(what, FAILED, str(error), "set it to another value, or unset it")


def matmul_rates() -> str:
    """Say how fast matrices are multiplied: in float32, and in bf16 where it differs.

    Raises ``NativeLibraryError``.
    """
    rates = f"matmul {matmul_rate():.0f} GFLOP/s on one core"
    if build().has_bf16:
        rates += f", {matmul_rate(BF16):.0f} in bf16"
    return rates


def matmul_rate(terms: int = FLOAT32, seconds: float = 0.05) -> float:
    """Return the best rate of a matmul [256, 128] x [128, 384], in GFLOP/s.

    ``terms`` is the number format of the matrix, FLOAT32 or BF16. Raises
    ``NativeLibraryError``.
    """
    rows, inputs, outputs = 256, 128, 384
    multiply = native_matmul(rows, inputs, outputs, terms)
    best = math.inf
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        multiply()
        best = min(best, time.perf_counter() - began)
    return 2 * rows * inputs * outputs / best / 1e9


def native_matmul(
    rows: int, inputs: int, outputs: int, terms: int = FLOAT32
) -> Callable[[], object]:
    """Return a function that multiplies [rows, inputs] x [inputs, outputs] natively.

    ``terms`` is the number format of the matrix, FLOAT32 or BF16. Raises
    ``NativeLibraryError``.
    """
    native = kernels()
    weight = _aligned(native.packed_bytes(inputs, outputs, terms))
    scratch = _aligned(native.matmul_scratch_bytes(inputs, rows))
    x, y = (np.ones((rows, width), np.float32) for width in (inputs, outputs))
    matrix = Matrix(inputs, outputs, terms, weight.ctypes.data, None)
    operands = byref(matrix), x.ctypes.data, inputs, rows, y.ctypes.data, outputs

    def multiply() -> object:
        native.matmul(*operands, MatmulOptions(), scratch.ctypes.data)
        return weight, x, y  # kept alive: the operands are addresses

    return multiply


def _aligned(size: int) -> NDArray[np.uint8]:
    """Return zeros that begin where a packed matrix must."""
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    return memory[first : first + size]


def backends_used() -> str:
    """Return which backends are used for training and translation by default."""
    names = {
        "native": "the native backend",
        "pytorch": "PyTorch",
        "ctranslate2": "CTranslate2",
    }
    ways = list(ranked("decoding"))
    usable = ways[: ways.index("pytorch") + 1]  # PyTorch supports every search
    translating = ", else ".join(names[way] for way in usable)
    training = names[ranked("training")[0]]
    return f"training uses {training}; translation uses {translating}"
