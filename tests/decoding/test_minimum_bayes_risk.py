import math

import pytest

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.minimum_bayes_risk import probabilities, rank_by_expected_utility


def hypothesis(number, share):
    log_p = math.log(share)
    return Hypothesis((number,), log_p, log_p, True)


ALIKE = {("a", "b"): 0.8, ("a", "c"): 0.1, ("b", "c"): 0.6}


def similarity(text, other):
    return 1.0 if text == other else ALIKE[min(text, other), max(text, other)]


def utility(texts):
    return [[similarity(text, other) for other in texts] for text in texts]


def test_the_most_probable_is_not_always_the_best():
    """a has 0.4, b 0.3 and c 0.3: u(a) = 0.4 + 0.24 + 0.03, u(b) = 0.32 + 0.3 + 0.18.

    u(c) = 0.04 + 0.18 + 0.3. So b (0.8) is before a (0.67) and c (0.52).
    """
    found = [hypothesis(1, 0.4), hypothesis(2, 0.3), hypothesis(3, 0.3)]
    ranked = rank_by_expected_utility(found, ["a", "b", "c"], utility, sampled=False)

    assert [each.tokens for each in ranked] == [(2,), (1,), (3,)]
    assert [each.score for each in ranked] == pytest.approx([0.8, 0.67, 0.52])


def test_a_sample_counts_as_often_as_it_was_drawn():
    """a twice and c twice, b once: u(b) = 0.32 + 0.2 + 0.24.

    u(a) = 0.4 + 0.16 + 0.04, u(c) = 0.04 + 0.12 + 0.4; p = 1e-9 says nothing.
    """
    found = [hypothesis(n, 1e-9) for n in (1, 1, 2, 3, 3)]
    ranked = rank_by_expected_utility(found, list("aabcc"), utility, sampled=True)

    assert [each.tokens for each in ranked] == [(2,), (1,), (3,)]
    assert ranked[0].score == pytest.approx(0.76)


def test_one_text_with_two_segmentations_has_the_sum_of_their_probabilities():
    found = [hypothesis(1, 0.2), hypothesis(2, 0.3), hypothesis(3, 0.5)]
    ranked = rank_by_expected_utility(found, ["a", "a", "c"], utility, sampled=False)

    assert len(ranked) == 2
    assert {each.tokens for each in ranked} == {(2,), (3,)}


def test_probabilities_of_very_improbable_outputs_do_not_underflow():
    found = [
        Hypothesis((1,), -2000.0, 0.0, True),
        Hypothesis((2,), -2000.0 - math.log(3), 0.0, True),
    ]

    assert probabilities(found, sampled=False) == pytest.approx([0.75, 0.25])
