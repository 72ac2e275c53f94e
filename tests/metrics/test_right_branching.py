import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.text.tree_strategies import tokens

from headwise.errors import UsageError
from headwise.metrics.right_branching import right_branching
from headwise.text.trees import parse_tree


def test_all_brackets_end_at_the_last_word():
    tree = right_branching(["a", "b", "c", "d"], ["A", "B", "C", "D"], label="X")
    assert str(tree) == "(X (A a) (X (B b) (X (C c) (D d))))"


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["a"], "(S (XX a))"), (["a", "b"], "(S (XX a) (XX b))")],
)
def test_one_or_two_words_are_one_bracket(words, expected):
    assert right_branching(words) == parse_tree(expected)


@given(st.lists(tokens, min_size=1, max_size=9))
def test_all_words_are_in_it(words):
    assert right_branching(words).words == words


def test_no_words_are_no_tree():
    with pytest.raises(UsageError, match="at least 1 word"):
        right_branching([])
