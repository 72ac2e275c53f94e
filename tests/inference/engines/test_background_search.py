"""Background searches: the same outputs, errors raised by ``result``, cancellation."""

import threading
import time

import pytest

from headwise.decoding.settings import DecodingSettings
from headwise.errors import Cancelled
from headwise.fork_safe_lock import ForkSafeLock
from headwise.inference.engines.background_search import BackgroundSearch
from headwise.inference.engines.engine import DeferredSearch
from headwise.inference.engines.torch_engine import MIN_BACKGROUND_SOURCES, TorchEngine
from headwise.inference.streaming_translation import PREFETCH_BLOCKS
from headwise.inference.translator import load


@pytest.fixture(scope="module")
def translator(tiny_run):
    return load(tiny_run, engine="torch")


def ended(search):
    for _ in range(1000):
        if search.done():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.usefixtures("uses_native_backend")
def test_many_sources_are_searched_in_the_background_for_the_same_outputs(translator):
    engine = translator.engine
    lines = [
        f"{each}." for each in ("one", "two", "six five", "four")
    ] * MIN_BACKGROUND_SOURCES
    sources = translator.opened.task.encode(lines)
    settings = DecodingSettings(beam=2)

    submitted = [engine.submit(sources[:count], settings) for count in (64, 128, 250)]

    assert all(isinstance(each, BackgroundSearch) for each in submitted)
    for count, search in zip((64, 128, 250), submitted, strict=True):
        assert search.result() == engine.search(sources[:count], settings)
        assert search.done()


def test_few_sources_or_pytorch_are_deferred_until_result(translator, tiny_run):
    engine = translator.engine
    sources = translator.opened.task.encode(["one."] * MIN_BACKGROUND_SOURCES)
    eager = load(tiny_run, engine="torch-eager").engine

    for each, few in ((engine, sources[1:]), (eager, sources)):
        assert isinstance(each, TorchEngine)
        search = each.submit(few, DecodingSettings(beam=1))
        assert isinstance(search, DeferredSearch)
        assert search.result() == each.search(few, DecodingSettings(beam=1))


def test_errors_are_raised_by_result():
    def fails(check_stop):
        raise ValueError("no")

    search = BackgroundSearch(fails, ForkSafeLock())

    assert ended(search)
    with pytest.raises(ValueError, match="no"):
        search.result()


def test_a_cancelled_search_ends_soon():
    def endless(check_stop):
        while True:
            check_stop()
            time.sleep(0.001)

    lock = ForkSafeLock()
    first, second = BackgroundSearch(endless, lock), BackgroundSearch(endless, lock)
    first.cancel()
    second.cancel()

    for each in (first, second):
        assert ended(each)
        with pytest.raises(Cancelled):
            each.result()


@pytest.mark.usefixtures("uses_native_backend")
def test_a_closed_stream_cancels_the_searches_it_submitted(translator, monkeypatch):
    submitted = []
    submit = translator.engine.submit

    def noted(*request):
        submitted.append(submit(*request))
        return submitted[-1]

    monkeypatch.setattr(translator.engine, "submit", noted)
    monkeypatch.setattr(
        "headwise.inference.streaming_translation.BLOCK_LINES", MIN_BACKGROUND_SOURCES
    )
    lock = ForkSafeLock()
    monkeypatch.setattr(translator.engine, "background_lock", lock)
    with lock.held():  # so that none has ended before others were submitted
        lines = translator.lines(["one."] * (5 * MIN_BACKGROUND_SOURCES), beam=1)
        reader = threading.Thread(target=next, args=(lines,), daemon=True)
        reader.start()
        for _ in range(1000):
            if len(submitted) > PREFETCH_BLOCKS:
                break
            time.sleep(0.01)
    reader.join()
    lines.close()

    assert len(submitted) > PREFETCH_BLOCKS
    assert all(ended(each) for each in submitted)
