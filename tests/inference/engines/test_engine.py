"""Engines with and without threads of their own, behind one ``submit``."""

from headwise.decoding.settings import greedy
from headwise.inference.engines.engine import AsyncEngine, DeferredSearch, submit


class SyncEngine:
    """An engine that searches in the caller's thread."""

    name = "sync"

    def __init__(self):
        self.searches = []

    def search(self, sources, settings, prefixes=None):
        self.searches.append((sources, prefixes))
        return [[] for _ in sources]


class QueueEngine(SyncEngine):
    """An engine that returns futures."""

    def submit(self, sources, settings, prefixes=None):
        return "a future"


def test_a_search_without_threads_runs_when_its_result_is_asked_for():
    engine = SyncEngine()
    future = submit(engine, [[5]], greedy())

    assert isinstance(future, DeferredSearch)
    assert future.done()
    assert engine.searches == []
    assert future.result() == [[]]
    assert engine.searches == [([[5]], None)]


def test_a_cancelled_deferred_search_never_runs():
    engine = SyncEngine()
    submit(engine, [[5]], greedy()).cancel()

    assert engine.searches == []


def test_an_engine_with_threads_returns_its_own_future():
    assert isinstance(QueueEngine(), AsyncEngine)
    assert not isinstance(SyncEngine(), AsyncEngine)
    assert submit(QueueEngine(), [[5]], greedy()) == "a future"
