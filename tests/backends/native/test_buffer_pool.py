"""Memory goes back to its pool with whom uses it last, and not all of it is kept."""

from __future__ import annotations

import threading

import pytest

from headwise.backends.native import buffer_pool
from headwise.backends.native.buffer_pool import SMALL, Pool


def test_what_was_given_back_is_given_out_again():
    pool = Pool()
    first = pool.take(SMALL + 1)
    where = first.data_ptr()
    shared = [first]
    del first
    assert pool.free_bytes == 0  # somebody still has it

    shared.clear()
    assert pool.free_bytes == 2 * SMALL
    assert pool.take(2 * SMALL).data_ptr() == where
    assert pool.free_bytes == 2 * SMALL  # and back again


def test_there_is_as_much_as_was_asked_for():
    pool = Pool()
    for size in (0, 1, SMALL, SMALL + 1, 3 * SMALL + 5):
        block = pool.take(size)
        numbers = getattr(block, "numbers", block)
        assert len(numbers) >= size


def test_no_two_have_the_same_memory():
    pool = Pool()
    for _ in range(3):
        blocks = [pool.take(SMALL + 1) for _ in range(5)]
        assert len({each.data_ptr() for each in blocks}) == 5


def test_no_more_is_kept_than_may_be(monkeypatch):
    monkeypatch.setattr(buffer_pool, "KEPT", 5 * SMALL)
    pool = Pool()
    blocks = [pool.take(SMALL + 1) for _ in range(4)]
    blocks.clear()

    assert pool.free_bytes == 4 * SMALL


@pytest.mark.parametrize("threads", [4])
def test_threads_share_a_pool(threads):
    pool, seen = Pool(), []

    def work(number):
        for _ in range(200):
            block = pool.take(SMALL + 1)
            block.numbers[:8] = number
            seen.append(bool((block.numbers[:8] == number).all()))

    running = [threading.Thread(target=work, args=[n]) for n in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()

    assert all(seen)
    assert len(seen) == 200 * threads
    assert pool.free_bytes <= threads * 2 * 2 * SMALL  # each had one or two
