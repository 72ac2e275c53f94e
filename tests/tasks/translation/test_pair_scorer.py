"""Forced decoding of pairs: batches, padding, cross-attention and alignment heads."""

from pathlib import Path

import pytest
import torch

from headwise.decoding.settings import DecodingSettings
from headwise.demo_corpus import demo_corpus
from headwise.run_folder.model_folder import open_model_folder
from headwise.tasks.translation.pair_scorer import pad_sources
from headwise.tasks.translation.thread_pool import cut_batches
from headwise.text.vocabulary import END, PAD

DEMO = Path(__file__).parents[2] / "models" / "demo"


@pytest.fixture(scope="module")
def opened():
    return open_model_folder(DEMO)


def test_batches_hold_similar_sizes_up_to_the_limit():
    """Sizes 2 2 3 are 9 padded; 8 and 9 together would be 18."""
    assert cut_batches([9, 2, 3, 2, 8], 10, alone=False) == [[1, 3, 2], [4], [0]]
    assert cut_batches([], 10, alone=False) == []


def test_alone_every_pair_is_its_own_batch():
    assert cut_batches([2, 1], 10, alone=True) == [[1], [0]]


def test_sources_are_padded_behind_end():
    padded, is_real = pad_sources([[5, 6], []], torch.device("cpu"))

    assert padded.tolist() == [[5, 6, END], [END, PAD, PAD]]
    assert is_real.tolist() == [[True] * 3, [True, False, False]]


def test_the_score_of_a_pair_does_not_depend_on_its_batch(opened):
    sources = opened.task.encode(["The dog sleeps.", "My mother eats bread."])
    pairs = [(source, (9, 10, 11)) for source in sources]
    scorer = opened.task.scorer(opened.model)

    together = scorer.score(pairs, DecodingSettings())
    alone = [scorer.score([pair], DecodingSettings())[0] for pair in pairs]

    for one, other in zip(together, alone, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)


def test_hypotheses_are_aligned_only_if_asked_for(opened):
    source = opened.task.encode(["The dog sleeps."])[0]
    scorer = opened.task.scorer(opened.model)
    pairs = [(source, (9, 10, 11))]

    (plain,) = scorer.score(pairs, DecodingSettings())
    (aligned,) = scorer.score(pairs, DecodingSettings(alignments=True))

    assert plain.alignment == ()
    assert [index for _, index in aligned.alignment] == [0, 1, 2]


def test_the_mutual_information_of_heads_is_that_of_the_page(opened):
    """In nats, on 300 pairs of the demo's corpus: docs/decoding.md, decision 0053."""
    corpus = demo_corpus(num_train=0, num_dev=0, num_held_out=300, seed=7)
    pair = opened.tokenizers
    best, told = opened.task.scorer(opened.model).best_head(
        [
            (pair.source.encode(each.english), pair.target.encode(each.french))
            for each in corpus.held_out
        ],
    )

    def least_and_most(names):
        values = [told[name] for name in names]
        return round(min(values), 1), round(max(values), 1)

    now = [name for name in told if name[1:2] == ":" and "+" not in name]
    assert best == "1:3"
    assert least_and_most(now) == (3.3, 4.1)
    assert least_and_most(name for name in now if name[0] == "1") == (3.8, 4.1)
    assert least_and_most(name for name in now if name[0] == "0") == (3.3, 3.5)
    assert least_and_most(name for name in told if "+" in name) == (3.0, 3.2)
    assert round(told["average"], 1) == 3.8
