"""Batches in threads: results in order, and one exception cancels all."""

import time

import pytest
import torch
from tests.torch_threads import torch_threads

from headwise.decoding.greedy import greedy_search
from headwise.errors import Cancelled, Stopped
from headwise.tasks.translation.thread_pool import run_in_threads, tokens_per_batch
from headwise.tasks.translation.torch_threads import run_in_torch_threads


@pytest.fixture
def two_threads():
    with torch_threads(2):
        yield


def never():
    """Do not stop."""


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_are_in_the_order_of_the_batches(threads):
    def work(batch, check_stop):
        time.sleep(0.001 * (batch % 3))
        return batch**2

    found = run_in_threads(work, range(20), threads=threads, check_stop=never)

    assert found == [number**2 for number in range(20)]


@pytest.mark.parametrize(
    ("total", "threads", "expected"),
    [(100, 1, 40), (100, 2, 13), (30, 2, 15), (50, 2, 13), (400, 2, 40), (0, 2, 0)],
)
def test_batches_keep_all_threads_busy(total, threads, expected):
    """By hand: 100 are 50 a thread, in four rounds of 13; 30 are 15, too few to cut."""
    assert tokens_per_batch(total, threads, limit=40) == expected


def test_the_number_of_torch_threads_is_restored(two_threads):
    def threads(batch, check_stop):
        return torch.get_num_threads()

    found = run_in_torch_threads(threads, range(3), threads=2, check_stop=never)

    assert found == [1, 1, 1]
    assert torch.get_num_threads() == 2


class Endless:
    """A decoder backend that never produces END (token 1)."""

    def __init__(self):
        self.steps = 0

    def step(self, tokens, state):
        time.sleep(0.001)
        self.steps += 1
        return torch.tensor([[1.0, 0.0]]), state


def search_forever(decoder, check_stop):
    return greedy_search(
        decoder,
        None,
        num_rows=1,
        start=0,
        end=1,
        max_lengths=[10**6],
        check_stop=check_stop,
    )


def test_an_exception_in_one_batch_cancels_the_others(two_threads):
    decoders = [Endless(), Endless()]

    def work(decoder, check_stop):
        if decoder is not None:
            return search_forever(decoder, check_stop)
        while decoders[0].steps < 3:
            time.sleep(0.001)
        raise ValueError("no number")

    with pytest.raises(ValueError, match="no number"):
        run_in_torch_threads(
            work, [decoders[0], None, decoders[1]], threads=2, check_stop=never
        )

    assert torch.get_num_threads() == 2


def test_a_stop_signal_cancels_all_of_them():
    decoders = [Endless(), Endless()]

    def stop():
        if decoders[0].steps:
            raise Stopped("a signal came")

    with pytest.raises(Stopped):
        run_in_torch_threads(search_forever, decoders, threads=2, check_stop=stop)


def test_a_cancelled_batch_takes_no_further_step():
    decoder = Endless()

    def stop():
        if decoder.steps >= 5:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        search_forever(decoder, stop)

    assert decoder.steps == 5
