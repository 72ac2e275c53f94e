"""Searches aside: the same outputs, errors where they are asked for, an early end."""

import threading
import time

import pytest

from headwise.decoding.settings import DecodingSettings
from headwise.inference.engines.background import GivenUp, SearchAside
from headwise.inference.engines.engine import SearchWhenAsked
from headwise.inference.engines.torch_engine import WORTH_A_THREAD, TorchEngine
from headwise.inference.streaming import BLOCKS_AHEAD
from headwise.inference.translator import load


@pytest.fixture(scope="module")
def translator(tiny_run):
    return load(tiny_run, engine="torch")


def ended(search):
    for _ in range(1000):
        if search.ready():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.usefixtures("kernels_here")
def test_many_sources_are_searched_aside_for_the_same_outputs(translator):
    engine = translator.engine
    lines = [f"{each}." for each in ("one", "two", "six five", "four")] * WORTH_A_THREAD
    sources = engine.task.encode(lines)
    settings = DecodingSettings(beam=2)

    begun = [engine.begin(sources[:count], settings) for count in (64, 128, 250)]

    assert all(isinstance(each, SearchAside) for each in begun)
    for count, search in zip((64, 128, 250), begun, strict=True):
        assert search.outputs() == engine.search(sources[:count], settings)
        assert search.ready()


def test_few_sources_or_pytorch_wait_until_they_are_asked_for(translator, tiny_run):
    engine = translator.engine
    sources = engine.task.encode(["one."] * WORTH_A_THREAD)
    eager = load(tiny_run, engine="torch-eager").engine

    for each, few in ((engine, sources[1:]), (eager, sources)):
        assert isinstance(each, TorchEngine)
        search = each.begin(few, DecodingSettings(beam=1))
        assert isinstance(search, SearchWhenAsked)
        assert search.outputs() == each.search(few, DecodingSettings(beam=1))


def test_errors_come_where_outputs_are_asked_for():
    def fails(stop):
        raise ValueError("no")

    search = SearchAside(fails, threading.Lock())

    assert ended(search)
    with pytest.raises(ValueError, match="no"):
        search.outputs()


def test_a_search_that_was_given_up_ends_soon():
    def endless(stop):
        while True:
            stop()
            time.sleep(0.001)

    turn = threading.Lock()
    first, second = SearchAside(endless, turn), SearchAside(endless, turn)
    first.give_up()
    second.give_up()

    for each in (first, second):
        assert ended(each)
        with pytest.raises(GivenUp):
            each.outputs()


@pytest.mark.usefixtures("kernels_here")
def test_who_stops_reading_gives_up_what_was_begun(translator, monkeypatch):
    begun = []
    begin = translator.engine.begin

    def noted(*asked):
        begun.append(begin(*asked))
        return begun[-1]

    monkeypatch.setattr(translator.engine, "begin", noted)
    monkeypatch.setattr("headwise.inference.streaming.LINES_AT_ONCE", WORTH_A_THREAD)
    held = threading.Lock()
    monkeypatch.setattr(translator.engine, "turn", held)
    with held:  # so that none has ended before others were begun
        lines = translator.lines(["one."] * (5 * WORTH_A_THREAD), beam=1)
        reader = threading.Thread(target=next, args=(lines,), daemon=True)
        reader.start()
        for _ in range(1000):
            if len(begun) > BLOCKS_AHEAD:
                break
            time.sleep(0.01)
    reader.join()
    lines.close()

    assert len(begun) > BLOCKS_AHEAD
    assert all(ended(each) for each in begun)
