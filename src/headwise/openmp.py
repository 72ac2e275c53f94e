"""How many threads compute, and those of OpenMP, which torch's operations share.

An operation of torch with several threads ends by a barrier: it lasts until the system
has run all of them. On idle cores that takes microseconds; where other programs have
the cores, milliseconds, for each of the hundred small operations of an update. So while
kernels of our own train, whose threads meet once in a pass, those of torch have one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch

_of_kernels: int | None = None
"""Threads of kernels while torch is kept to one; None: as many as torch has."""


def num_threads() -> int:
    """Return how many threads kernels have.

    That is torch's number, also while :func:`torch_in_one_thread` holds.
    """
    return _of_kernels or torch.get_num_threads()


@contextmanager
def torch_in_one_thread() -> Iterator[None]:
    """Keep operations of torch to one thread, but not kernels; may be nested."""
    with _threads(of_torch=1, of_kernels=num_threads()):
        yield


@contextmanager
def torch_in_all_threads() -> Iterator[None]:
    """Let operations of torch have all threads, for few and large ones."""
    with _threads(of_torch=num_threads(), of_kernels=_of_kernels):
        yield


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Keep kernels and operations of torch to ``count`` threads."""
    of_torch = min(count, torch.get_num_threads())
    with _threads(of_torch=of_torch, of_kernels=min(count, num_threads())):
        yield


@contextmanager
def _threads(*, of_torch: int, of_kernels: int | None) -> Iterator[None]:
    global _of_kernels
    before = torch.get_num_threads(), _of_kernels
    _of_kernels = of_kernels
    torch.set_num_threads(of_torch)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        _of_kernels = before[1]


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
