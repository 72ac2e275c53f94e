import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import UsageError
from headwise.metrics.error_rates import (
    edit_distance,
    exact_match,
    token_error_rate,
    word_error_rate,
)


def test_three_words_of_which_one_is_wrong():
    """Lines 1 and 3 are right, line 2 is not; a blank at the end does not matter."""
    hypotheses = ["k æ t", "d ɔ k", "h aʊ s "]
    references = ["k æ t", "d ɔ g", "h aʊ s"]

    assert exact_match(hypotheses, references).value == pytest.approx(200 / 3)
    assert word_error_rate(hypotheses, references).value == pytest.approx(100 / 3)


def test_edits_are_summed_before_dividing():
    """1 replaced of 3, then 2 put in beside 1: 3 edits for 4 tokens, 75.

    The mean of the lines' own rates would be (33 + 200) / 2 = 117.
    """
    score = token_error_rate(["d ɔ k", "a b c"], ["d ɔ g", "a"])

    assert score.value == pytest.approx(75)
    assert not score.higher_is_better


def test_a_sound_of_two_letters_is_one_token():
    assert token_error_rate(["h o s"], ["h aʊ s"]).value == pytest.approx(100 / 3)


@pytest.mark.parametrize(
    ("first", "second", "edits"),
    [
        ("", "", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("abc", "abc", 0),
        ("kitten", "sitting", 3),  # k-s, e-i, and g put in
        ("abcd", "bcda", 2),  # a taken out in front, put in behind
    ],
)
def test_edits_by_hand(first, second, edits):
    assert edit_distance(first, second) == edits


short = st.text("abc", max_size=7)


@given(short, short, short)
def test_edits_are_a_distance(one, two, three):
    assert edit_distance(one, two) == edit_distance(two, one)
    assert (edit_distance(one, two) == 0) == (one == two)
    assert edit_distance(one, three) <= edit_distance(one, two) + edit_distance(
        two, three
    )


def test_references_without_tokens_have_no_rate():
    with pytest.raises(UsageError, match="all references are blank"):
        token_error_rate(["a", "b"], ["", " "])
