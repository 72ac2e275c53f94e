"""One computation at a time, and none for clients that have left."""

import asyncio
import threading

import pytest

from headwise.serving.computations import ClientLeftError, Computations


class Client:
    """A request whose client leaves when it is told to."""

    def __init__(self):
        self.leaves = asyncio.Event()

    async def receive(self):
        await self.leaves.wait()
        return {"type": "http.disconnect"}


def test_what_is_computed_is_returned_and_what_is_raised_raised():
    async def scenario():
        computations = Computations()
        assert await computations.run(Client(), lambda check: 3) == 3
        with pytest.raises(ZeroDivisionError):
            await computations.run(Client(), lambda check: 1 / 0)
        assert await computations.run(Client(), lambda check: 4) == 4

    asyncio.run(scenario())


def test_a_client_that_leaves_while_it_waits_costs_nothing():
    go_on, done = threading.Event(), []

    def compute(check_stop):
        assert go_on.wait(20)
        done.append("first")

    async def scenario():
        computations, gone = Computations(), Client()
        first = asyncio.create_task(computations.run(Client(), compute))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(
            computations.run(gone, lambda check: done.append("second"))
        )
        await asyncio.sleep(0.05)
        gone.leaves.set()
        with pytest.raises(ClientLeftError):
            await second
        go_on.set()
        await first
        await computations.run(Client(), lambda check: done.append("third"))

    asyncio.run(scenario())
    assert done == ["first", "third"]


def test_a_client_that_leaves_stops_what_is_computed_for_it():
    started, calls = threading.Event(), []

    def compute(check_stop):
        for _ in range(2_000):
            check_stop()
            calls.append(1)
            started.set()
            threading.Event().wait(0.01)
        raise AssertionError("it was not stopped")

    async def scenario():
        computations, client = Computations(), Client()
        task = asyncio.create_task(computations.run(client, compute))
        await asyncio.to_thread(started.wait)
        client.leaves.set()
        with pytest.raises(ClientLeftError):
            await task
        assert await computations.run(Client(), lambda check: "next") == "next"

    asyncio.run(scenario())
    assert 1 <= len(calls) < 1_000
