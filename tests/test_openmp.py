"""Kernels keep their threads where torch is kept to one; a block ends as it began."""

import pytest
import torch

from headwise.openmp import (
    at_most,
    num_threads,
    torch_in_all_threads,
    torch_in_one_thread,
)


@pytest.fixture(autouse=True)
def ends_as_it_began(three_threads):
    yield
    assert counts() == (3, 3)


def counts():
    """Return the threads of torch, and those of kernels."""
    return torch.get_num_threads(), num_threads()


def test_torch_has_one_thread_and_kernels_have_all():
    with torch_in_one_thread():
        assert counts() == (1, 3)
        with torch_in_one_thread():
            assert counts() == (1, 3)
        assert counts() == (1, 3)


def test_a_large_operation_has_all_threads_in_between():
    with torch_in_one_thread():
        with torch_in_all_threads():
            assert counts() == (3, 3)
        assert counts() == (1, 3)


def test_a_share_of_the_threads_limits_both():
    with at_most(2):
        assert counts() == (2, 2)
    with torch_in_one_thread(), at_most(2):
        assert counts() == (1, 2)
        with torch_in_all_threads():
            assert counts() == (2, 2)
    with at_most(7):
        assert counts() == (3, 3)


def test_threads_come_back_after_an_error():
    with pytest.raises(ValueError, match="x"), torch_in_one_thread(), at_most(2):
        raise ValueError("x")
    assert counts() == (3, 3)
