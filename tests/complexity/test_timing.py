"""How times are taken, by a clock that a test turns."""

import time

from headwise.complexity.timing import MIN_ROUNDS, clock_of, measure


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def takes(self, seconds):
        def call():
            self.now += seconds

        return call


def test_a_time_is_that_of_one_call():
    clock = Clock()
    cases = {each: clock.takes(each) for each in (1e-6, 1e-3, 0.5)}

    found = measure(cases, 0.0, clock)

    for seconds, timing in found.items():
        assert abs(timing.seconds / seconds - 1) < 1e-6
        assert timing.samples >= MIN_ROUNDS


def test_one_slow_call_does_not_change_the_median():
    clock = Clock()
    calls = []

    def call():
        calls.append(1)
        clock.now += 9.0 if len(calls) == 4 else 0.5

    timing = measure({"it": call}, 0.0, clock)["it"]

    assert (timing.seconds, timing.fastest) == (0.5, 0.5)


def test_cases_take_turns():
    clock, order = Clock(), []

    def named(name):
        def call():
            order.append(name)
            clock.now += 1.0

        return call

    measure({name: named(name) for name in "abc"}, 0.0, clock)

    rounds = order[6:]  # two calls of each to learn what it takes
    assert len(rounds) == 3 * MIN_ROUNDS
    for place in range(0, len(rounds), 3):
        assert sorted(rounds[place : place + 3]) == ["a", "b", "c"]


def test_one_thread_is_timed_by_the_processor_and_several_by_the_wall():
    assert clock_of(1) == ("processor time", time.process_time)
    assert clock_of(2) == ("wall-clock time", time.perf_counter)
