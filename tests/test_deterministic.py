"""The same bits on one machine, whatever comes together and on however many threads.

The models are those that a user has: the committed one by every engine. That an engine
keeps the promise is seen from outside, by comparing words and the bits of scores; that
it could not do otherwise, by looking at what it computes at a time.
"""

import random
import shutil
import threading
from pathlib import Path

import pytest
import torch
from tests.torch_threads import torch_threads

import headwise
from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine
from headwise.inference.engines.registry import ENGINES
from headwise.tasks.translation.generator import Generator
from headwise.tasks.translation.pair_scorer import PairScorer

DEMO = Path(__file__).parent / "models" / "demo"

LINES = [
    "The dog sleeps in the garden.",
    "",
    "A dog runs.",
    "The small house is white and she sees the river.",
    "Is this school old?",
    "He drinks the water, the old woman drinks the water and the dog drinks it. " * 3,
    "A dog runs.",
    "The cats run in the park and my brother does not see the white cats there.",
]
"""Of very different lengths, one in several pieces, one blank, one that comes twice."""

WAYS = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "num_best": 3},
    "coverage": {"coverage": 0.2, "alignments": True},
    "sampling": {"search": "sampling", "samples": 2, "top_p": 0.9},
}
ENOUGH = {"ctranslate2": ["beam"]}
"""Ways that are tried of an engine that lacks the others."""

NUMBERS_OF = {"torch": ("float32", "bf16"), "ctranslate2": ("float32", "int8")}

TRIED = [
    pytest.param(engine, precision, way, id=f"{engine} {precision} {way}")
    for engine in ENGINES
    for precision in NUMBERS_OF.get(engine, ("float32",))
    for way in ENOUGH.get(engine, ["beam", "coverage"])
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a model of our own: an export is kept beside it."""
    return shutil.copytree(DEMO, tmp_path_factory.mktemp("deterministic") / "model")


def bits(found):
    """Return the words of a line, and its scores to the last bit."""
    return [
        (
            each.text,
            float(each.score).hex(),
            float(each.log_probability).hex(),
            each.alignment,
        )
        for each in found.candidates
    ]


@pytest.mark.parametrize(("engine", "precision", "way"), TRIED)
def test_no_bit_depends_on_threads_batches_or_order(folder, engine, precision, way):
    how = {"engine": engine, "precision": precision, "deterministic": True}

    def translated(lines, count, at_a_time):
        with torch_threads(count):
            translator = headwise.load(folder, **how)
            parts = [lines[n : n + at_a_time] for n in range(0, len(lines), at_a_time)]
            search = WAYS[way]
            found = [
                bits(each)
                for part in parts
                for each in translator.lines(part, **search)
            ]
            if engine.startswith("torch"):
                assert torch.get_num_threads() == count
        return found

    expected = translated(LINES, 1, len(LINES))
    assert len(expected) == len(LINES)
    for seed, count, at_a_time in [(1, 2, len(LINES)), (2, 3, 4)]:
        order = random.Random(seed).sample(range(len(LINES)), len(LINES))
        found = translated([LINES[place] for place in order], count, at_a_time)
        for place, each in zip(order, found, strict=True):
            assert each == expected[place]


@pytest.mark.parametrize("count", [1, 3])
def test_scores_of_given_pairs_are_the_same_bits_as_well(folder, count):
    targets = ["Le chien dort dans le jardin."] * len(LINES)
    translator = headwise.load(folder, deterministic=True)

    with torch_threads(count):
        (alone,) = translator.score(LINES[:1], targets[:1], token_scores=True)
        found = translator.score(LINES, targets, token_scores=True)
        again = translator.score(LINES[::-1], targets, token_scores=True)[::-1]

    assert found == again
    assert found[0] == alone


@pytest.mark.parametrize("engine", ["torch", "torch-eager"])
@pytest.mark.parametrize("way", WAYS)
def test_a_sentence_is_searched_alone_and_on_one_thread(
    folder, monkeypatch, engine, way
):
    """So nothing can depend on the others, whatever kernel a library chooses."""
    seen = []
    search = Generator._search_batch
    cross_attention = PairScorer.cross_attention

    def watched(self, sources, *rest):
        seen.append((len(sources), torch.get_num_threads()))
        return search(self, sources, *rest)

    def also_watched(self, sources, targets):
        seen.append((len(sources), torch.get_num_threads()))
        return cross_attention(self, sources, targets)

    monkeypatch.setattr(Generator, "_search_batch", watched)
    monkeypatch.setattr(PairScorer, "cross_attention", also_watched)
    with torch_threads(3):
        for deterministic in (False, True):
            translator = headwise.load(
                folder, engine=engine, deterministic=deterministic
            )
            seen.clear()
            assert len(list(translator.lines(LINES, **WAYS[way]))) == len(LINES)
            assert (set(seen) == {(1, 1)}) == deterministic


def test_ctranslate2_is_given_a_sentence_at_a_time_and_one_thread_for_each(folder):
    with torch_threads(3):
        engine = CTranslate2Engine(headwise.load(folder, deterministic=True).opened)

    for many in (1, 2, 50):
        translator = engine.workers.translator(many)
        assert translator.num_translators == 3
        batches = list(engine.workers.batches([5] * many, 4))
        assert [len(batch) for batch in batches] == [1] * many


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_auto_makes_its_choice_once_and_not_by_what_comes_together(
    folder, no_kernels_to_choose, precision
):
    """A very long line makes ``auto`` take torch for all that is searched with it."""
    usual = headwise.load(folder, precision=precision)
    chosen = headwise.load(folder, precision=precision, deterministic=True)
    for translator in (usual, chosen):
        translator.translate(LINES[:1])
        translator.translate(LINES[:1], length_penalty="none", alpha=0.0)

    assert set(usual.engine.used) == {"ctranslate2"}
    only = {"float32": "torch", "int8": "ctranslate2"}[precision]
    assert set(chosen.engine.used) == {only}


def test_two_searches_in_parallel_are_deterministic(folder):
    """Threads of the user's own, each with lines of its own."""
    translator = headwise.load(folder, engine="torch", deterministic=True)
    expected = [bits(each) for each in translator.lines(LINES)]
    found = {}

    def work(number):
        found[number] = [bits(each) for each in translator.lines(LINES[::-1])][::-1]

    users = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for user in users:
        user.start()
    for user in users:
        user.join()

    assert found == {0: expected, 1: expected}


def test_ensembles_and_alternatives_are_deterministic(folder):
    pair = headwise.load([folder, folder], deterministic=True)
    with torch_threads(3):
        together = [bits(each) for each in pair.lines(LINES)]
        typed = pair.alternatives(LINES[0], "Le", count=4)
    alone = [bits(each) for line in LINES for each in pair.lines([line])]

    assert together == alone
    assert pair.alternatives(LINES[0], "Le", count=4) == typed
