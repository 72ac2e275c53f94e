import numpy as np
import pytest

from headwise.errors import UsageError
from headwise.metrics.number_scores import pearson, rmse

GUESSES, NUMBERS = ["1", "2.5", "4", "-1"], ["2", "2", "5", "0"]


def test_the_root_of_the_mean_squared_error_by_hand():
    """Errors of 1, 0.5, 1 and 1: (1 + 0.25 + 1 + 1) / 4 = 0.8125."""
    assert rmse(GUESSES, NUMBERS).value == pytest.approx(0.8125**0.5)
    assert not rmse(GUESSES, NUMBERS).higher_is_better


def test_the_correlation_is_that_of_numpy():
    guesses, numbers = ([*map(float, each)] for each in (GUESSES, NUMBERS))
    expected = 100 * np.corrcoef(guesses, numbers)[0, 1]
    assert pearson(GUESSES, NUMBERS).value == pytest.approx(expected)


def test_without_variance_there_is_no_correlation():
    assert pearson(["1", "1"], ["1", "2"]).value == 0
    assert pearson(["1"], ["2"]).value == 0


def test_a_line_that_is_no_number_is_named():
    with pytest.raises(UsageError, match="line 2: 'x' is not a number"):
        rmse(["1", "x"], ["1", "2"])


@pytest.mark.parametrize("text", ["nan", "inf", "1_5", "1e999", ""])
def test_what_is_no_number_in_training_is_none_here(text):
    with pytest.raises(UsageError, match=r"line 2: '.*' is not a (finite )?number"):
        pearson(["1", "2"], ["1", text])


def test_an_error_in_the_unit_of_the_labels_is_shown_with_three_digits():
    assert str(rmse(["0.5", "0.75"], ["0.5", "0.5"])) == "RMSE 0.177"
    assert str(rmse(["1", "2"], ["1", "8"])) == "RMSE 4.24"
    assert str(rmse(["1000", "2000"], ["1000", "5000"])) == "RMSE 2121.3"
    assert str(pearson(["1", "2", "3"], ["1", "2", "4"])) == "Pearson correlation 98.2"
