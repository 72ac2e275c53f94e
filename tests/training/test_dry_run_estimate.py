"""The dry run: numbers that were worked out by other means."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tiny import write_text
from tests.training.conftest import QUICK

from headwise.data.batches import TrainingOrder
from headwise.data.pair_formats import DOCUMENTS
from headwise.data.prepare import prepare
from headwise.data.sequence_packing import PackedShape, pack_batch
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.text.settings import TextSettings
from headwise.training import dry_run_estimate
from headwise.training.dry_run_estimate import (
    dropped_pairs,
    dry_run_report,
    longest_pairs,
    padding_fraction,
    parameters_by_part,
    schedule_milestones,
)
from headwise.training.memory_estimate import MemoryEstimator


@pytest.fixture
def estimator(make_trainer):
    def make(settings=QUICK):
        trainer = make_trainer(settings)
        return MemoryEstimator(
            *(trainer.task, trainer.model, trainer.corpus, settings),
            trainer.gradients,
            future_copies=2,
        )

    return make


@pytest.fixture(scope="module")
def gaps(tmp_path_factory):
    """Prepare 62 lines: the 6th empty, the 8th too long, the 2nd there three times."""
    folder = tmp_path_factory.mktemp("gaps")
    source, target = write_text(folder, num_pairs=60)
    for path in (source, target):
        lines = path.read_text().splitlines()
        lines[5], lines[7] = "", "one two three four five six. " * 3
        path.write_text("\n".join([*lines, lines[1], lines[1]]) + "\n")
    data = DataSettings(
        corpora=(CorpusSettings(source=str(source), target=str(target)),),
        max_tokens=20,
        dev_pairs=20,
    )
    return prepare(data, TextSettings(vocab_size=50), folder / "prepared", seed=1)


def test_the_dry_run_of_a_fresh_run(estimator, corpus):
    """200 pairs of about 10 tokens; 6 updates of which every third is validated."""
    found = dry_run_report(estimator(), seed=1)

    order = TrainingOrder(corpus.train, seed=1, batch_tokens=QUICK.batch_tokens)
    assert found.updates_an_epoch == order.num_batches(0)
    assert (found.updates_done, found.updates, found.validations) == (0, 6, 2)
    assert found.pairs == corpus.facts.train.pairs
    assert found.memory.peak > 50 * 2**20
    assert 0 < found.padding < 0.5
    assert found.seconds == pytest.approx(
        6 * found.seconds_an_update + 2 * found.seconds_a_validation
    )
    assert [step for step, _ in found.learning_rates] == [1, 3, 6]
    assert found.learning_rates[1] == (3, 0.01)


def test_completed_updates_need_no_more_time(estimator):
    found = dry_run_report(estimator(), seed=1, done=4)

    assert (found.updates_done, found.updates, found.validations) == (4, 6, 1)
    assert found.seconds == pytest.approx(
        2 * found.seconds_an_update + found.seconds_a_validation
    )


def test_until_limits_the_estimated_time(estimator):
    found = dry_run_report(estimator(), seed=1, until=5)

    assert (found.updates, found.validations) == (5, 2)


def test_a_time_limit_limits_the_estimated_time(estimator):
    found = dry_run_report(estimator(replace(QUICK, max_minutes=1e-4)), seed=1)

    assert found.seconds == found.max_seconds == pytest.approx(0.006)
    whole = 6 * found.seconds_an_update + 2 * found.seconds_a_validation
    assert found.share_in_time == pytest.approx(0.006 / whole)


def test_time_that_training_has_taken_is_not_left(estimator):
    limited = estimator(replace(QUICK, max_minutes=1e-4))
    found = dry_run_report(limited, seed=1, done=4, seconds_done=0.004)

    assert found.seconds == pytest.approx(0.002)


def test_batches_accumulated_make_fewer_updates(estimator):
    one = dry_run_report(estimator(), seed=1).updates_an_epoch
    three = dry_run_report(estimator(replace(QUICK, accumulate=3)), seed=1)

    assert three.updates_an_epoch == max(1, one // 3)


def test_parameters_add_up_and_what_is_tied_counts_once(make_trainer):
    model = make_trainer().model
    parts = parameters_by_part(model)

    assert sum(parts.values()) == sum(each.numel() for each in model.parameters())
    assert parts["embeddings"] == model.target_vocab_size * 16
    assert list(parts) == ["embeddings", "encoder", "decoder"]


def test_padding_is_the_fraction_of_positions_without_a_token(corpus):
    order = TrainingOrder(corpus.train, seed=1, batch_tokens=QUICK.batch_tokens)
    places = tokens = 0
    for batch in order.batches(0):
        for side in (batch.source, batch.target):
            places += side.padded().numel()
            tokens += int((side.padded() != 0).sum())

    assert padding_fraction(order) == pytest.approx(1 - tokens / places)


def test_filler_is_padding_too(corpus):
    order = TrainingOrder(corpus.train, seed=1, batch_tokens=512, packed=True)
    shape = PackedShape.of(1, 512)
    parts = [part for batch in order.batches(0) for part in pack_batch(batch, shape)]
    pairs = torch.stack(
        [pair for p in parts for pair in (p.source_pair, p.target_pair)]
    )

    expected = (pairs == 0).float().mean().item()
    assert padding_fraction(order) == pytest.approx(expected)


@pytest.mark.parametrize("at_once", [7, 2**20])
def test_the_longest_pairs_are_found_wherever_they_are(corpus, monkeypatch, at_once):
    monkeypatch.setattr(dry_run_estimate, "PAIRS_PER_CHUNK", at_once)
    sources, targets = corpus.train.lengths()
    expected = sorted(zip(sources, targets, strict=True), key=lambda each: -max(each))
    found = longest_pairs(corpus)

    assert [max(each.source_tokens, each.target_tokens) for each in found] == [
        max(each) for each in expected[: len(found)]
    ]
    for each in found:
        assert len(corpus.train.source(each.index)) == each.source_tokens
        assert len(corpus.train.target(each.index)) == each.target_tokens
        assert each.corpus.endswith("train.en")


def test_a_long_pair_names_the_corpus_it_is_from(tmp_path):
    files = [write_text(tmp_path / name, num_pairs=30) for name in ("one", "two")]
    long = "one two three four five six. " * 5 + "\n"
    for path in files[1]:
        path.write_text(path.read_text() + long)
    data = DataSettings(
        corpora=tuple(CorpusSettings(source=str(s), target=str(t)) for s, t in files),
        dev_pairs=2,
    )
    made = prepare(data, TextSettings(vocab_size=50), tmp_path / "prepared", seed=1)

    assert longest_pairs(made)[0].corpus == str(files[1][0])


def test_dropped_pairs_are_listed_by_reason_with_lines(gaps):
    empty, too_long, *held_out = dropped_pairs(gaps)
    (facts,) = gaps.facts.corpora

    assert (empty.reason, empty.pairs) == ("a side without text", facts.empty)
    assert empty.examples[0].endswith("train.en:6 (0 and 0 tokens)")
    assert (too_long.reason, too_long.pairs) == ("over max_tokens=20 tokens", 1)
    assert "train.en:8 (" in too_long.examples[0]
    assert sum(each.pairs for each in held_out) == facts.held_out
    assert all(len(each.examples) <= 3 for each in held_out)


def test_a_corpus_without_gaps_left_nothing_out(tmp_path):
    source, target = write_text(tmp_path, num_pairs=5)
    for number, path in enumerate((source, target)):
        path.write_text("".join(f"{word} {number}\n" for word in "abcdefgh"))
    data = DataSettings(
        corpora=(CorpusSettings(source=str(source), target=str(target)),), dev_pairs=1
    )
    made = prepare(data, TextSettings(vocab_size=60), tmp_path / "prepared", seed=1)

    assert dropped_pairs(made) == []


@pytest.mark.parametrize(
    ("steps", "warmup", "expected"),
    [(100, 10, [1, 10, 100]), (10, 100, [1, 10]), (100, 1, [1, 100]), (1, 5, [1])],
)
def test_the_schedule_turns_where_the_warm_up_ends(steps, warmup, expected):
    settings = replace(QUICK, steps=steps, warmup_steps=warmup)
    assert schedule_milestones(settings) == expected


def test_a_long_window_of_documents_names_the_corpus_it_is_from(tmp_path):
    """Of windows that are equally long the first ones are listed: three of one file."""
    files = [tmp_path / "one.txt", tmp_path / "two.txt"]
    files[0].write_text("abcdefghijklmno\n" * 5, encoding="utf-8")
    files[1].write_text("abcdefghijklmno\n" * 40, encoding="utf-8")
    corpora = tuple(CorpusSettings(source=str(each), format="text") for each in files)
    made = prepare(
        DataSettings(corpora=corpora, max_tokens=16, dev_pairs=2),
        TextSettings(tokenizer="characters", vocab_size=50),
        tmp_path / "prepared",
        seed=1,
        pair_format=DOCUMENTS,
    )

    found = longest_pairs(made)

    second = made.facts.corpora[1].first_pair
    begins = made.train.indices(np.array([each.index for each in found]))
    assert {each.corpus for each in found} == set(map(str, files))
    assert [each.corpus for each in found] == [
        str(files[int(begin >= second)]) for begin in begins
    ]
