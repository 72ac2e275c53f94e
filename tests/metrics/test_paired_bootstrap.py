"""The paired bootstrap test of sacreBLEU."""

import pytest

from headwise.errors import UsageError
from headwise.metrics.paired_bootstrap import PAIRED, paired_bootstrap
from headwise.metrics.registry import CAN_RESAMPLE

REFERENCES = ["the cat sat on the mat", "a dog runs home", "two birds fly away"] * 20
WORSE = [line.replace("the", "a") for line in REFERENCES]
NOISY = [*REFERENCES[:-1], "two birds fly"]


@pytest.mark.parametrize("name", PAIRED)
def test_a_clear_difference_has_a_small_p_and_a_chance_one_a_large(name):
    found = paired_bootstrap(
        name, REFERENCES, {"worse": WORSE, "noisy": NOISY}, REFERENCES, resamples=200
    )

    assert found["worse"] < 0.05
    assert found["noisy"] > 0.1


@pytest.mark.parametrize("name", PAIRED)
def test_equal_outputs_do_not_differ(name):
    """sacreBLEU itself says 1 / (resamples + 1): no resample differs by more than 0."""
    found = paired_bootstrap(name, WORSE, {"same": [*WORSE]}, REFERENCES, resamples=50)

    assert found == {"same": 1.0}


@pytest.mark.parametrize("name", PAIRED)
def test_outputs_that_differ_but_score_the_same_do_not_differ(name):
    """A space at the end, or two systems that have nothing right."""
    spaced = [f"{each} " for each in WORSE]
    found = paired_bootstrap(name, WORSE, {"spaced": spaced}, REFERENCES, resamples=50)

    assert found == {"spaced": 1.0}


def test_all_metrics_of_sacrebleu_have_the_test():
    assert {*PAIRED} | {"multi30k-bleu"} == CAN_RESAMPLE


def test_what_cannot_be_tested_is_a_usage_error():
    with pytest.raises(UsageError, match="no paired bootstrap test"):
        paired_bootstrap("accuracy", ["a"], {}, ["a"])
    with pytest.raises(UsageError, match="each hypothesis needs a reference"):
        paired_bootstrap("bleu", ["a"], {"b": ["a", "b"]}, ["a"])
