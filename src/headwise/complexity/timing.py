"""Times of layers: many short looks in turn, and their medians."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

import torch

Case = TypeVar("Case", bound=Hashable)

SAMPLE_SECONDS = 0.002
"""A sample is as many calls as take this long; its time is their mean."""

VISIT_SECONDS = 0.01
"""Samples of one case are taken for this long, then those of the next."""

MIN_ROUNDS = 3
"""Rounds through all cases, whatever they take."""


@dataclass(frozen=True)
class Timing:
    """The time of one call."""

    seconds: float
    """Median of the samples."""

    fastest: float
    samples: int


def clock_of(threads: int) -> tuple[str, Callable[[], float]]:
    """Return the name and the function of the clock that times are read from.

    Of one thread its processor time, which stands still while other processes run; of
    several, the time that passes.
    """
    if threads == 1:
        return "processor time", time.process_time
    return "wall-clock time", time.perf_counter


def measure(
    cases: Mapping[Case, Callable[[], object]],
    seconds: float,
    clock: Callable[[], float],
) -> dict[Case, Timing]:
    """Time all ``cases`` in turn, in rounds of random order, for about ``seconds``.

    What slows a machine down for a while so falls on all of them.
    """
    end = time.monotonic() + seconds
    order = list(cases)
    shuffle = random.Random(1).shuffle
    samples: dict[Case, list[float]] = {case: [] for case in order}
    with torch.inference_mode():
        calls = {case: _calls_of_a_sample(cases[case], clock) for case in order}
        rounds = 0
        while rounds < MIN_ROUNDS or time.monotonic() < end:
            shuffle(order)
            for case in order:
                samples[case] += _visit(cases[case], calls[case], clock)
            rounds += 1
    return {
        case: Timing(median(found), min(found), len(found))
        for case, found in samples.items()
    }


def _calls_of_a_sample(call: Callable[[], object], clock: Callable[[], float]) -> int:
    call()
    start = clock()
    call()
    return max(1, round(SAMPLE_SECONDS / max(clock() - start, 1e-7)))


def _visit(
    call: Callable[[], object], calls: int, clock: Callable[[], float]
) -> list[float]:
    samples: list[float] = []
    began = clock()
    while not samples or clock() - began < VISIT_SECONDS:
        start = clock()
        for _ in range(calls):
            call()
        samples.append((clock() - start) / calls)
    return samples
