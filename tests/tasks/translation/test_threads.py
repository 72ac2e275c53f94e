"""Batches side by side: the same results, and an end for all when there is one."""

import threading
import time
from functools import partial

import pytest
import torch

from headwise.errors import Stopped
from headwise.tasks.translation.threads import (
    Abandonable,
    Abandoned,
    all_done,
    shared_out,
    side_by_side,
)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def never():
    """Do not stop."""


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_stand_in_the_order_of_the_batches(workers):
    def work(batch, ended):
        time.sleep(0.001 * (batch % 3))
        return batch**2

    found = all_done(work, range(20), workers=workers, stop=never)

    assert found == [number**2 for number in range(20)]


@pytest.mark.parametrize(
    ("size", "workers", "expected"),
    [(100, 1, 40), (100, 2, 25), (30, 2, 15), (80, 2, 40), (81, 2, 21), (0, 2, 0)],
)
def test_batches_keep_all_workers_busy(size, workers, expected):
    """By hand: 100 in batches of 40 at most are two turns of two, so 25 each."""
    assert shared_out(size, workers, most=40) == expected


def test_each_worker_has_one_thread_and_all_come_back(two_threads):
    def threads(ended):
        return torch.get_num_threads()

    assert side_by_side([threads] * 3, workers=2, stop=never) == [1, 1, 1]
    assert torch.get_num_threads() == 2


class Endless:
    """A decoder whose search never ends by itself."""

    def start(self, source, source_is_real):
        return 0

    def step(self, tokens, state):
        time.sleep(0.001)
        return tokens, state + 1


def search_forever(steps, ended):
    decoder = Abandonable(Endless(), ended)
    state = decoder.start(None, None)
    while True:
        _, state = decoder.step(torch.ones(1), state)
        steps.append(state)


def test_what_one_batch_raises_ends_the_others(two_threads):
    steps = []

    def fail(ended):
        while len(steps) < 3:
            time.sleep(0.001)
        raise ValueError("no number")

    with pytest.raises(ValueError, match="no number"):
        side_by_side(
            [partial(search_forever, steps), fail, partial(search_forever, steps)],
            workers=2,
            stop=never,
        )

    assert torch.get_num_threads() == 2


def test_a_stop_signal_ends_all_of_them():
    steps = []

    def stop():
        if steps:
            raise Stopped("a signal came")

    with pytest.raises(Stopped):
        side_by_side([partial(search_forever, steps)] * 2, workers=2, stop=stop)


def test_nothing_is_written_once_a_search_has_ended():
    ended = threading.Event()
    ended.set()

    with pytest.raises(Abandoned):
        Abandonable(Endless(), ended).step(torch.ones(1), 0)
