"""Student's t interval, by answers from printed tables."""

import pytest

from headwise.metrics.paired_difference import paired_difference, t_quantile, t_within


@pytest.mark.parametrize(
    ("degrees", "t"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042)],
)
def test_quantiles_are_those_of_printed_tables(degrees, t):
    assert t_quantile(degrees) == pytest.approx(t, abs=5e-4)


def test_the_distribution_agrees_with_scipy():
    distribution = pytest.importorskip("scipy.stats").t
    for degrees in (1, 2, 5, 8, 33):
        for t in (0.1, 1.0, 2.5, 7.0):
            expected = 1 - 2 * distribution.sf(t, degrees)
            assert t_within(t, degrees) == pytest.approx(expected, abs=1e-12)


def test_a_difference_is_paired_by_seeds():
    """Worked by hand: differences 1, 2, 3 have mean 2 and deviation 1.

    The interval is 2 ± 4.303 / √3 = 2 ± 2.484.
    """
    found = paired_difference([11.0, 22.0, 33.0], [10.0, 20.0, 30.0])

    assert (found.mean, found.pairs) == (2.0, 3)
    assert found.low == pytest.approx(2 - 2.484, abs=1e-3)
    assert found.high == pytest.approx(2 + 2.484, abs=1e-3)


def test_one_seed_has_no_interval():
    found = paired_difference([3.0], [1.0])

    assert (found.mean, found.pairs, found.low, found.high) == (2.0, 1, None, None)
