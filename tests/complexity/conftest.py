"""A result with made-up times, so that no test waits for a clock."""

from dataclasses import replace

import pytest

from headwise.complexity import benchmark
from headwise.complexity.benchmark import Complexity, measure_complexity
from headwise.complexity.layers import LAYERS
from headwise.complexity.sizes import ComplexitySettings
from headwise.complexity.timing import Timing

SMALL = ComplexitySettings(
    lengths=(16, 32, 64),
    widths=(4, 8, 16),
    kernels=(3, 5, 7),
    windows=(3, 5, 9),
    batch=2,
    seconds=0.0,
)

SECONDS_PER_MULTIPLY_ADD = dict.fromkeys(LAYERS, 1e-09) | {"GRU": 3e-9, "LSTM": 2e-9}
"""Of the made-up times. So the crossover of a GRU is at three times the predicted n."""


def made_up_times(cases, *_):
    """Return times that are exactly the multiply-adds, times a factor."""
    timings = {}
    for case in cases:
        name, sizes = case
        seconds = LAYERS[name].multiply_adds(sizes) * SECONDS_PER_MULTIPLY_ADD[name]
        timings[case] = Timing(seconds, 0.9 * seconds, 7)
    return timings


def made_up_ratio(name, sizes, seconds, clock, length):
    sizes = replace(sizes, length=length)
    timings = made_up_times([("self-attention", sizes), (name, sizes)])
    return timings["self-attention", sizes].seconds / timings[name, sizes].seconds


@pytest.fixture(scope="session")
def result() -> Complexity:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "measure", made_up_times)
        patch.setattr(benchmark, "_time_ratio", made_up_ratio)
        return measure_complexity(SMALL)
