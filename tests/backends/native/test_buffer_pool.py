"""Buffers return to their pool after their last use; a limited part is kept."""

from __future__ import annotations

import threading

import pytest

from headwise.backends.native import buffer_pool
from headwise.backends.native.buffer_pool import MIN_POOLED_BYTES, BufferPool


def test_a_returned_buffer_is_reused():
    pool = BufferPool()
    first = pool.take(MIN_POOLED_BYTES + 1)
    where = first.address
    shared = [first]
    del first
    assert pool.free_bytes == 0  # somebody still has it

    shared.clear()
    assert pool.free_bytes == 2 * MIN_POOLED_BYTES
    assert pool.take(2 * MIN_POOLED_BYTES).address == where
    assert pool.free_bytes == 2 * MIN_POOLED_BYTES  # and back again


def test_a_buffer_is_as_large_as_was_asked_for():
    pool = BufferPool()
    for size in (
        0,
        1,
        MIN_POOLED_BYTES,
        MIN_POOLED_BYTES + 1,
        3 * MIN_POOLED_BYTES + 5,
    ):
        block = pool.take(size)
        numbers = block.memory
        assert len(numbers) >= size


def test_no_two_buffers_share_memory():
    pool = BufferPool()
    for _ in range(3):
        blocks = [pool.take(MIN_POOLED_BYTES + 1) for _ in range(5)]
        assert len({each.address for each in blocks}) == 5


def test_free_memory_is_limited(monkeypatch):
    monkeypatch.setattr(buffer_pool, "MAX_FREE_BYTES", 5 * MIN_POOLED_BYTES)
    pool = BufferPool()
    blocks = [pool.take(MIN_POOLED_BYTES + 1) for _ in range(4)]
    blocks.clear()

    assert pool.free_bytes == 4 * MIN_POOLED_BYTES


@pytest.mark.parametrize("threads", [4])
def test_threads_share_a_pool(threads):
    pool, seen = BufferPool(), []

    def work(number):
        for _ in range(200):
            block = pool.take(MIN_POOLED_BYTES + 1)
            block.memory[:8] = number
            seen.append(bool((block.memory[:8] == number).all()))

    running = [threading.Thread(target=work, args=[n]) for n in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()

    assert all(seen)
    assert len(seen) == 200 * threads
    assert pool.free_bytes <= threads * 2 * 2 * MIN_POOLED_BYTES  # each had one or two
