"""Where two costs are equal."""

import pytest

from headwise.complexity.crossovers import PARTNERS, find_crossover, predicted_length
from headwise.complexity.layers import LAYERS
from headwise.complexity.sizes import Sizes

LONGEST = 4096


@pytest.mark.parametrize("truth", [20, 100, 731, 3000])
@pytest.mark.parametrize("start", [5, 128, 4000])
def test_a_ratio_that_grows_with_the_length_is_found(truth, start):
    found, ratios = find_crossover(lambda n: n / truth, start, LONGEST)

    assert found == pytest.approx(truth, rel=0.03)
    assert len(ratios) <= 3


def test_a_ratio_that_grows_otherwise_is_interpolated():
    """Overhead: the ratio is 1 at 400, and grows slowly below."""
    found, _ = find_crossover(lambda n: (n + 600) ** 2 / 1000**2, 10, LONGEST)

    assert found == pytest.approx(400, rel=0.05)


def test_noise_does_not_lead_astray():
    noise = iter([1.05, 0.96, 1.03, 0.98, 1.01])
    found, _ = find_crossover(lambda n: next(noise) * n / 500, 128, LONGEST)

    assert found == pytest.approx(500, rel=0.06)


@pytest.mark.parametrize("ratio", [1e-9, 1e9])
def test_a_crossover_beyond_all_lengths_is_none(ratio):
    found, ratios = find_crossover(lambda n: ratio * n, 128, LONGEST)

    assert found is None
    assert all(2 <= length <= LONGEST for length in ratios)


def test_predicted_lengths_by_hand():
    """2 n² d against 2, 6, 8, k and 4 times n d², with d = 64 and k = 7."""
    sizes = Sizes(length=100, width=64, kernel=7, window=3, batch=8)

    found = {name: predicted_length(LAYERS[name], sizes) for name in PARTNERS}

    assert found == {
        "Elman recurrence": 64,
        "GRU": 3 * 64,
        "LSTM": 4 * 64,
        "convolution": 3.5 * 64,
        "projections of attention": 2 * 64,
    }
