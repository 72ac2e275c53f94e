"""Windows: nothing is lost, none is too long, all are about as long, few there are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwise.text.windows import windows


@given(st.integers(0, 200), st.integers(1, 60))
def test_windows_are_those_of_numpy(length, most):
    tokens = [*range(length)]

    cut = windows(tokens, most)

    count = -(-length // most)
    expected = np.array_split(tokens, count) if length else []
    assert cut == [part.tolist() for part in expected]
    assert max(map(len, cut), default=0) <= most


def test_seven_tokens_in_windows_of_three_are_three_two_and_two():
    assert windows([*range(7)], 3) == [[0, 1, 2], [3, 4], [5, 6]]


def test_without_a_limit_there_is_one_window():
    assert windows([5, 6, 7], None) == [[5, 6, 7]]
    assert windows([], None) == []
