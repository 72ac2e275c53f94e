"""The sign-flip test, by hand and by scipy; Holm's correction, by hand."""

import numpy as np
import pytest
from benchmarks.paired_permutation import holm, sign_flip_test

scipy_stats = pytest.importorskip("scipy.stats")


def test_all_signs_of_three_differences_by_hand():
    """|1 + 2 + 3| = 6 is reached by two of eight choices of signs: +++ and ---.

    Of 1, 2, -3, whose sum is 0, every choice is at least as far from 0.
    """
    found = sign_flip_test(np.array([[1.0, 1.0], [2.0, 2.0], [3.0, -3.0]]))

    assert found.tolist() == [2 / 8, 1.0]


def test_differences_of_zero_are_no_evidence():
    assert sign_flip_test(np.zeros((40, 2))).tolist() == [1.0, 1.0]


def test_rounding_does_not_tell_equal_sums_apart():
    """0.1 + 0.2 + 0.3 in another order is another float, and the same sum."""
    one = sign_flip_test(np.array([[0.1], [0.2], [0.3]]))
    other = sign_flip_test(np.array([[0.3], [0.2], [0.1]]))

    assert one.tolist() == other.tolist() == [2 / 8]


def test_exact_p_values_are_those_of_scipy():
    differences = np.random.default_rng(3).normal(0.3, 1.0, size=(9, 4))

    expected = scipy_stats.permutation_test(
        (differences,),
        lambda x, axis: np.mean(x, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )

    assert sign_flip_test(differences) == pytest.approx(expected.pvalue)


def test_drawn_p_values_are_near_the_exact_ones(monkeypatch):
    differences = np.random.default_rng(4).normal(0.4, 1.0, size=(12, 5))
    exact = sign_flip_test(differences)
    monkeypatch.setattr("benchmarks.paired_permutation.EXACT", 1)

    drawn = sign_flip_test(differences, resamples=40_000)

    assert drawn == pytest.approx(exact, abs=0.01)
    assert drawn.tolist() == sign_flip_test(differences, resamples=40_000).tolist()


def test_without_differences_there_is_no_test():
    with pytest.raises(ValueError, match="no differences"):
        sign_flip_test(np.zeros((0, 3)))


def test_holm_by_hand():
    """Of four tests the smallest is multiplied by 4, the next by 3, and none sinks.

    0.01 x 4 = 0.04; 0.015 x 3 = 0.045; 0.02 x 2 = 0.04, which may not be below 0.045;
    0.9 x 1 = 0.9.
    """
    assert holm([0.02, 0.9, 0.01, 0.015]) == pytest.approx([0.045, 0.9, 0.04, 0.045])
    assert holm([0.7, 0.8]) == [1.0, 1.0]
