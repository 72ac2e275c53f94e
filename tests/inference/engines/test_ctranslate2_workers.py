"""How sentences are shared among CTranslate2's threads."""

import shutil
from contextlib import contextmanager
from pathlib import Path
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.decoding.settings import DecodingSettings
from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine
from headwise.inference.engines.ctranslate2_workers import (
    BATCH_TOKENS,
    BEAM_ROWS,
    GREEDY_ROWS,
    QUEUE_DEPTH,
    Workers,
)
from headwise.inference.engines.torch_engine import TorchEngine
from headwise.interop.exports import export
from headwise.run_folder.model_folder import open_model_folder

DEMO = Path(__file__).parents[2] / "models" / "demo"
LINES = ["Is this school old?", "The dog sleeps.", "The letters were long."]


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers") / "model"
    return open_model_folder(shutil.copytree(DEMO, folder))


@pytest.fixture(scope="module")
def folder(opened, tmp_path_factory):
    made = tmp_path_factory.mktemp("workers") / "export"
    export(made, opened, target="ctranslate2")
    return made


def workers_of(folder, threads):
    @contextmanager
    def there():
        yield folder

    return Workers(there, "float32", threads)


@pytest.fixture(scope="module")
def two(folder):
    return workers_of(folder, 2)


@given(
    lengths=st.lists(st.integers(1, 5000), max_size=300),
    beam=st.sampled_from([1, 4, 5, 200]),
)
def test_every_sentence_is_in_one_batch_that_is_not_too_large(two, lengths, beam):
    batches = list(two.batches(lengths, beam))

    assert sorted(n for batch in batches for n in batch) == [*range(len(lengths))]
    for batch in batches:
        longest = max(lengths[number] for number in batch)
        assert longest == lengths[batch[0]]
        if len(batch) > 1:
            assert len(batch) * beam <= (GREEDY_ROWS if beam == 1 else BEAM_ROWS)
            assert len(batch) * beam * (longest + 1) <= BATCH_TOKENS


@given(lengths=st.lists(st.integers(1, 50), min_size=2, max_size=300))
def test_the_longest_come_first_and_no_worker_goes_without(two, lengths):
    batches = list(two.batches(lengths, 1))

    in_order = [lengths[number] for batch in batches for number in batch]
    assert in_order == sorted(lengths, reverse=True)
    assert len(batches) >= 2


def test_many_sentences_have_a_worker_for_each_thread_and_one_has_them_all(folder):
    workers = workers_of(folder, 2)

    assert workers.translator(5).num_translators == 2
    assert workers.translator(1).num_translators == 1
    assert workers.translator(2) is workers.translator(1000)


def test_with_one_thread_there_is_one_translator(folder):
    workers = workers_of(folder, 1)

    assert workers.translator(1) is workers.translator(1000)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_sentence_does_not_depend_on_what_it_is_searched_with(opened, beam):
    engine = CTranslate2Engine(opened)
    settings = DecodingSettings(beam=beam)
    sources = opened.task.encode([*LINES * 40, "Alice wrote that the letters are old."])

    together = engine.search(sources, settings)

    for number in (0, 1, 2, 120):
        (alone,) = engine.search([sources[number]], settings)
        assert [each.tokens for each in together[number]] == [
            each.tokens for each in alone
        ]
    words = [[each.tokens for each in found] for found in together]
    assert words[:3] == words[3:6]  # scores may differ in the seventh digit


def test_submit_and_search_give_the_same_outputs(opened):
    engine = CTranslate2Engine(opened)
    sources = opened.task.encode(LINES * 50)
    one = engine.submit(sources, DecodingSettings())
    other = engine.submit(sources[:2], DecodingSettings(beam=1))

    slow = TorchEngine(opened)
    words = [each[0].tokens for each in slow.search(sources, DecodingSettings())]
    assert [each[0].tokens for each in one.result()] == words
    assert one.done()
    assert [each[0].tokens for each in other.result()] == [
        each[0].tokens for each in slow.search(sources[:2], DecodingSettings(beam=1))
    ]


def test_batches_of_a_dropped_future_are_not_searched(opened):
    """Ctrl-C once came through when all that was read had been translated."""
    engine = CTranslate2Engine(opened)
    workers = engine.workers
    sources = opened.task.encode(LINES * 2000)
    search = engine.submit(sources, DecodingSettings())

    given = sum(batch.results is not None for batch in search.batches)
    # Some may be done already, and others given for them.
    assert QUEUE_DEPTH * workers.threads < len(search.batches)
    assert given < len(search.batches) / 2

    gone = [ref(batch) for batch in search.batches]
    del search
    assert not any(batch() for batch in gone)
    assert engine.search(sources[:1], DecodingSettings()) == engine.search(
        sources[:1], DecodingSettings()
    )
