"""The trained model that stands in the repository, and laws that need real weights.

It was made by ``recipes/demo-model.toml`` on the demo corpus; the recipe says how.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headwise import load
from headwise.decoding.settings import DecodingSettings, greedy, paper
from headwise.demo_corpus import demo_corpus
from headwise.doctor import check_folder
from headwise.metrics.registry import measure

FOLDER = Path(__file__).parent / "models" / "demo"


@pytest.fixture(scope="module")
def translator():
    return load(FOLDER, engine="torch")  # which keeps no export in the repository


@pytest.fixture(scope="module")
def held_out():
    """Return sentences whose combinations of words the model has never seen."""
    return demo_corpus(num_train=0, num_dev=0, num_held_out=120, seed=7).held_out


@pytest.fixture(scope="module")
def sources(translator, held_out):
    encode = translator.opened.tokenizers.source.encode
    return [encode(pair.english) for pair in held_out]


def test_the_committed_model_gives_its_golden_translations():
    findings = list(check_folder(FOLDER))

    assert [each for each in findings if each.status == "FAILED"] == []
    assert any("5 of 5 as stored" in each.found for each in findings)


def test_the_committed_model_is_small():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]

    assert sum(path.stat().st_size for path in files) <= 3_000_000


def test_the_committed_model_translates_unseen_sentences(translator, held_out):
    outputs = translator.translate([pair.english for pair in held_out])
    score = measure("bleu", outputs, [pair.french for pair in held_out])

    assert score.value > 85


@pytest.mark.parametrize(
    "settings", [greedy(), DecodingSettings(), paper()], ids=["greedy", "beam", "paper"]
)
def test_uncached_decoding_gives_the_same_tokens(translator, sources, settings):
    opened = translator.opened
    some = sources[:8]

    fast = opened.task.search(opened.model, some, settings)
    uncached = opened.task.generator(opened.model, cached=False)
    readable = uncached.search(some, settings)

    assert [each[0].tokens for each in fast] == [each[0].tokens for each in readable]
    for one, other in zip(fast, readable, strict=True):
        assert one[0].score == pytest.approx(other[0].score, abs=1e-5)


def test_a_translation_does_not_depend_on_its_neighbours(translator, sources):
    opened = translator.opened
    settings = DecodingSettings()
    together = opened.task.search(opened.model, sources, settings)
    backwards = opened.task.search(opened.model, sources[::-1], settings)[::-1]
    alone = [opened.task.search(opened.model, [each], settings)[0] for each in sources]

    words = [
        [each[0].tokens for each in found] for found in (together, backwards, alone)
    ]
    assert words[0] == words[1] == words[2]


def test_float64_gives_the_words_of_float32(translator, sources):
    """No word hangs on the rounding of a machine."""
    opened = translator.opened
    single = opened.task.search(opened.model, sources, greedy())
    try:
        double = opened.task.search(opened.model.double(), sources, greedy())
    finally:
        opened.model.float()

    assert [each[0].tokens for each in single] == [each[0].tokens for each in double]
    assert opened.model.target_embedding.vectors.dtype == torch.float32


def test_n_best_lists_are_sorted_distinct_and_begin_with_the_best(translator, sources):
    opened = translator.opened
    best = opened.task.search(opened.model, sources[:20], DecodingSettings(beam=5))
    lists = opened.task.search(
        opened.model, sources[:20], replace(DecodingSettings(beam=5), num_best=5)
    )

    for (first,), found in zip(best, lists, strict=True):
        scores = [each.score for each in found]
        assert found[0] == first
        assert scores == sorted(scores, reverse=True)
        assert len({each.tokens for each in found}) == len(found) == 5
