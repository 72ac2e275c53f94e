"""The OpenMP threads that torch keeps waiting for its next operation."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def pause_openmp() -> None:
    """End the OpenMP threads of this thread; torch starts others when it needs them.

    After an operation of torch they spin for milliseconds, in wait for the next one, on
    cores that other threads or processes are to have.
    """
    if pause := _omp_pause_resource_all():
        pause(1)  # omp_pause_soft: settings stay


@cache
def _omp_pause_resource_all() -> Callable[[int], int] | None:
    """Return that function (OpenMP 5.0, 3.2.44), if torch brings an OpenMP with it."""
    return getattr(ctypes.CDLL(None), "omp_pause_resource_all", None)
