import pytest
from sklearn.metrics import f1_score

from headwise.errors import UsageError
from headwise.metrics.label_scores import accuracy, macro_f1, tag_accuracy

GUESSES = ["a", "b", "b", "c", "a", "a"]
LABELS = ["a", "b", "c", "c", "b", "a"]


def test_accuracy_is_the_share_of_right_labels():
    assert accuracy(GUESSES, LABELS).value == pytest.approx(100 * 4 / 6)


def test_white_space_is_compared_as_labels_are_read():
    assert accuracy(["very  good "], ["very good"]).value == 100


def test_macro_f1_by_hand():
    """a: P 2/3, R 1, F 4/5; b: P 1/2, R 1/2, F 1/2; c: P 1, R 1/2, F 2/3."""
    expected = 100 * (4 / 5 + 1 / 2 + 2 / 3) / 3
    assert macro_f1(GUESSES, LABELS).value == pytest.approx(expected)


def test_macro_f1_is_that_of_scikit_learn():
    expected = 100 * f1_score(LABELS, GUESSES, average="macro")
    assert macro_f1(GUESSES, LABELS).value == pytest.approx(expected)


def test_tags_are_counted_one_by_one_and_missing_ones_are_wrong():
    score = tag_accuracy(["N V", "N", ""], ["N N", "N V", "D"])
    assert score.value == pytest.approx(100 * 2 / 5)


def test_tags_of_nothing_cannot_be_scored():
    with pytest.raises(UsageError, match="no tag"):
        tag_accuracy([""], [" "])
