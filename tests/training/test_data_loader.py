"""The data loader: batches in order from any state, each to one rank, loaded ahead."""

import re
import subprocess
import sys
from dataclasses import replace
from itertools import islice

import pytest
from tests.training.conftest import QUICK
from tests.training.test_exactness import continued

from headwise.data.prepare import prepare
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.data.source_noise import NoiseSettings
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import UNKNOWN
from headwise.training.data_loader import (
    augmentation_note,
    largest_training_batch,
    load_batches,
    make_dummy_batches,
    prefetch,
    training_order,
)
from headwise.training.distributed import Ranks
from headwise.training.state import TrainingState

TWO_A_STEP = replace(QUICK, accumulate=2)


def as_it_is(batch, random):
    return batch


def first_batches(corpus, ranks, count=6):
    order = training_order(corpus, TWO_A_STEP, seed=1)
    stream = load_batches(order, TrainingState(), TWO_A_STEP, ranks, as_it_is)
    return list(islice(stream, count))


def test_each_rank_loads_its_batches_of_a_step_and_knows_the_position_of_all(corpus):
    alone = first_batches(corpus, Ranks())
    ranks = [first_batches(corpus, Ranks(rank, 2)) for rank in (0, 1)]

    assert [at.index_in_step for at, _ in alone] == [0, 1, 0, 1, 0, 1]
    assert [at.number for at, _ in alone] == [1, 2, 3, 4, 5, 6]
    for rank, found in enumerate(ranks):
        assert [at.number for at, _ in found] == [1, 2, 3, 4, 5, 6]
        assert [batch is None for _, batch in found] == [
            at.index_in_step != rank for at, _ in found
        ]


def test_of_batches_with_a_number_of_pairs_none_is_larger_than_the_largest(corpus):
    settings = replace(QUICK, batch_pairs=7)
    order = training_order(corpus, settings, seed=1)

    largest = largest_training_batch(corpus, order, settings)

    assert len(largest) == 7
    for indices in order.epoch(0):
        assert order.make_batch(0, indices).padded_tokens <= largest.padded_tokens


def test_word_dropout_depends_on_seed_and_position_alone(corpus):
    settings = replace(TWO_A_STEP, word_dropout=0.5)
    order = training_order(corpus, settings, seed=1)

    def load(threads):
        chosen = replace(settings, data_workers=threads)
        return load_batches(order, TrainingState(), chosen, Ranks(), as_it_is)

    plain = [batch for _, batch in first_batches(corpus, Ranks())]
    dropped, again = (
        [batch for _, batch in islice(load(threads), 6)] for threads in (0, 2)
    )
    for one, other, whole in zip(dropped, again, plain, strict=True):
        assert one.source.tokens.tolist() == other.source.tokens.tolist()
        changed = one.source.tokens != whole.source.tokens
        assert (one.source.tokens[changed] == UNKNOWN).all()
        assert one.target.tokens.tolist() == whole.target.tokens.tolist()
    shares = [(one.source.tokens == UNKNOWN).float().mean() for one in dropped]
    assert 0.2 < sum(shares) / len(shares) < 0.6  # END is never dropped


DRAWN = replace(
    TWO_A_STEP,
    bpe_dropout=0.3,
    source_noise=NoiseSettings(final_punctuation=0.3, typos=0.3),
)


def tokens_of(batch):
    return batch.source.tokens.tolist(), batch.target.tokens.tolist()


def test_drawn_texts_are_the_same_with_any_number_of_threads_and_ranks(corpus):
    def load(threads, ranks, state=None):
        settings = replace(DRAWN, data_workers=threads)
        order = training_order(corpus, settings, seed=1)
        state = state or TrainingState()
        stream = load_batches(order, state, settings, ranks, as_it_is)
        found = [(at, batch) for at, batch in islice(stream, 40)]
        return {
            (at.epoch, at.number): tokens_of(batch)
            for at, batch in found
            if batch is not None
        }

    alone = load(0, Ranks())
    assert len({epoch for epoch, _ in alone}) > 1
    assert load(3, Ranks()) == alone
    assert load(0, Ranks(0, 2)) | load(2, Ranks(1, 2)) == alone
    resumed = load(1, Ranks(), replace(TrainingState(), epoch=1, batch=2))
    shared = alone.keys() & resumed.keys()
    assert len(shared) > 5
    assert all(alone[key] == resumed[key] for key in shared)


DRAW = """
import hashlib, sys
from pathlib import Path
from headwise.data.prepared import PreparedCorpus
from headwise.training.data_loader import training_order
from headwise.training.settings import TrainingSettings
settings = TrainingSettings(batch_tokens=256, {setting})
order = training_order(PreparedCorpus.open(Path(sys.argv[1])), settings, seed=1)
found = [b.source.tokens.tolist() + b.target.tokens.tolist() for b in order.batches(0)]
print(hashlib.sha256(repr(found).encode()).hexdigest())
"""


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_drawn_texts_are_the_same_in_every_process(tmp_path, tiny_text, kind):
    """SentencePiece's own are not, whatever seed it is given."""
    source, target = map(str, tiny_text)
    data = DataSettings(corpora=(CorpusSettings(source=source, target=target),))
    text = TextSettings(tokenizer=kind, vocab_size=50)
    prepare(data, text, tmp_path / "prepared", seed=1)
    setting = {"bpe": "bpe_dropout=0.3", "unigram": "unigram_alpha=0.2"}[kind]

    def draw():
        command = [sys.executable, "-c", DRAW.format(setting=setting)]
        return subprocess.run(
            [*command, str(tmp_path / "prepared")],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    assert draw() == draw()


def test_each_epoch_draws_other_texts(corpus):
    order = training_order(corpus, DRAWN, seed=1)
    indices = next(order.epoch(0))

    assert tokens_of(order.make_batch(0, indices)) != tokens_of(
        order.make_batch(1, indices)
    )


def test_it_is_said_how_long_drawn_texts_are(corpus):
    note = augmentation_note(training_order(corpus, DRAWN, seed=1))

    assert re.fullmatch(
        r"other segmentations have 1\.\d\d times the source tokens and 1\.\d\d times "
        "the target tokens of the corpus; .*",
        note,
    )
    assert augmentation_note(training_order(corpus, QUICK, seed=1)) is None


def test_a_task_prepares_each_batch_with_random_numbers_of_its_own(corpus):
    drawn = []

    def note(batch, random):
        drawn.append(int(random.random_raw()))
        return batch

    order = training_order(corpus, TWO_A_STEP, seed=1)
    stream = load_batches(order, TrainingState(), TWO_A_STEP, Ranks(), note)
    list(islice(stream, 6))
    assert len(set(drawn)) == 6


def test_dummy_batches_fill_up_to_the_number_of_the_other_ranks(corpus):
    """Rank 1 of two has no batch where the last step of a run has one."""
    (last,) = first_batches(corpus, Ranks(1, 2), count=1)
    (dummy,) = make_dummy_batches([last], corpus.train, 1)

    assert dummy.indices.tolist() == last[0].indices.tolist()
    own = first_batches(corpus, Ranks(0, 2), count=1)
    assert make_dummy_batches(own, corpus.train, 1) == []


@pytest.mark.parametrize("num_threads", [0, 1, 3])
def test_prefetching_keeps_the_order(num_threads):
    found = list(prefetch(range(50), lambda item: 2 * item, num_threads))

    assert found == [(item, 2 * item) for item in range(50)]


@pytest.mark.parametrize("num_threads", [0, 2])
def test_an_error_of_loading_comes_in_the_place_of_its_item(num_threads):
    def load(item):
        return 6 // (3 - item)

    found = prefetch(range(9), load, num_threads)

    assert list(islice(found, 3)) == [(0, 2), (1, 3), (2, 6)]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_seeking_reads_no_tokens(make_trainer, monkeypatch):
    first = make_trainer(until=4)
    first.run()
    trainer = continued(make_trainer, first)
    read = []
    sides = trainer.corpus.train.sides

    def counting(indices):
        read.extend(indices.tolist())
        return sides(indices)

    monkeypatch.setattr(trainer.corpus.train, "sides", counting)
    trainer.run()

    batches = list(trainer.order.epoch(first.state.epoch, start=first.state.batch))
    batches += list(trainer.order.epoch(first.state.epoch + 1))
    expected = [int(index) for batch in batches[:2] for index in batch]
    assert [update.step for update in trainer.callbacks[0].updates] == [5, 6]
    assert read == expected
