"""A history is what the log says, in bounded room, whatever else stands in the file."""

import json
import math
from itertools import pairwise

import pytest
from tests.reports.conftest import (
    a_run,
    end,
    history_of,
    note,
    start,
    update,
    validation,
    write_run,
)

from headwise.errors import ModelError
from headwise.reports import history as module
from headwise.reports.history import History, read_history, read_validations


def test_a_run_is_told_as_it_was():
    history = history_of([start(), update(1), update(2), validation(2), end(2)])

    assert [each.first for each in history.buckets] == [1, 2]
    assert [each.loss for each in history.validations] == [1.5]
    assert [(each.step, each.kind) for each in history.events] == [
        (0, "start"),
        (2, "end"),
    ]
    assert (history.step, history.tokens, history.seconds) == (2, 200, 1.0)
    assert history.ended == "all is done"


def test_a_resumed_run_has_not_ended():
    history = history_of([start(), update(1), end(1, "stopped"), start(1, 0.5)])

    assert history.ended == ""
    assert history.resumes == [1]


def test_a_note_belongs_to_the_step_before_it():
    history = history_of([start(), update(1), update(2), note("hear"), update(3)])

    assert [(e.step, e.text) for e in history.events if e.kind == "note"] == [
        (2, "hear")
    ]


def test_the_best_is_the_last_that_was_kept():
    history = history_of(
        [start(), validation(1), validation(2), validation(3, best=False)]
    )

    assert history.best.step == 2


def test_a_long_run_takes_bounded_room_and_loses_no_update(monkeypatch):
    monkeypatch.setattr(module, "MAX_BUCKETS", 8)
    losses = [float((7 * step) % 11) for step in range(1, 101)]
    history = history_of(
        [start(), *(update(step, loss) for step, loss in enumerate(losses, start=1))]
    )

    buckets = history.buckets
    assert len(buckets) <= 8
    assert sum(each.count for each in buckets) == 100
    assert sum(each.loss for each in buckets) == sum(losses)
    assert (buckets[0].first, buckets[-1].last) == (1, 100)
    assert all(a.last + 1 == b.first for a, b in pairwise(buckets))
    first = losses[: buckets[0].count]
    assert (buckets[0].lowest, buckets[0].highest) == (min(first), max(first))
    assert sum(each.tokens for each in buckets) == history.tokens == 100 * 100


def test_an_update_that_was_no_number_is_no_point_of_a_curve():
    history = history_of([start(), update(1), update(2, loss=math.nan), update(3)])

    assert [each.first for each in history.buckets] == [1, 3]
    assert history.step == 3


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"what": "fly"},
        {"what": ["update"]},
        {"what": "update"},
        {"what": "update", "step": "three", "tokens": 1, "seconds": 1},
        {"what": "validation", "step": 1},
        {**validation(1), "scores": []},
        {**validation(1), "scores": {"bleu": {"name": "BLEU"}}},
        {**validation(1), "samples": [{"source": "a"}]},
        {**validation(1), "step": None},
        {"what": "start"},
        {"what": "end", "step": 1e999, "seconds": 1, "reason": ""},
    ],
)
def test_what_we_never_write_is_left_out(entry):
    history = history_of([entry])

    assert history.buckets == history.validations == history.events == []


@pytest.mark.parametrize(
    "weights", [[[1.0]], [[1.0, 0.0, 0.0]] * 3, [[0.5, 0.5]] * 2, "none"]
)
def test_attention_that_does_not_fit_its_pieces_is_ignored_with_its_validation(weights):
    entry = validation(1)
    picture = {**entry["samples"][0]["attention"], "weights": weights}
    entry["samples"][0]["attention"] = picture

    assert history_of([entry]).validations == []


def test_a_log_is_read_as_it_was_written(tmp_path):
    folder = write_run(tmp_path / "run", a_run())

    assert read_history(folder / "log.jsonl") == history_of(a_run())


def test_half_a_line_at_the_end_is_left_out(tmp_path):
    folder = write_run(tmp_path / "run", a_run())
    with (folder / "log.jsonl").open("ab") as file:
        file.write('{"what": "note", "text": "für'.encode()[:-1])

    assert read_history(folder / "log.jsonl") == history_of(a_run())


def test_only_what_is_wanted_is_read(tmp_path):
    folder = write_run(tmp_path / "run", a_run())
    found = read_history(folder / "log.jsonl", keep=lambda e: e.get("step", 0) <= 20)

    assert (found.step, found.ended, len(found.validations)) == (20, "", 2)


def test_no_log_is_an_empty_history(tmp_path):
    assert read_history(tmp_path / "log.jsonl") == History()


def test_a_log_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / "log.jsonl").mkdir()

    with pytest.raises(ModelError, match=r"log\.jsonl cannot be read"):
        read_history(tmp_path / "log.jsonl")


@pytest.mark.parametrize("cut", [0, 3, 25, 44])
def test_the_fast_way_finds_the_same_but_the_curves(tmp_path, cut):
    entries = a_run()[: 44 - cut]
    folder = write_run(tmp_path / "run", entries)
    fast, whole = (
        read(folder / "log.jsonl") for read in (read_validations, read_history)
    )

    assert fast.validations == whole.validations
    assert fast.events == whole.events
    assert (fast.step, fast.ended, fast.best) == (whole.step, whole.ended, whole.best)
    assert fast.buckets == []


def test_a_line_of_an_update_begins_as_the_fast_way_expects(tmp_path):
    from headwise.training.callbacks import StepMetrics
    from headwise.training.log import JsonLog, update_entry
    from headwise.training.state import TrainingState

    one = StepMetrics(
        step=1, loss=1.0, learning_rate=0.1, gradient_norm=1.0, tokens=9, seconds=1.0
    )
    JsonLog(tmp_path / "log.jsonl").on_step(one, TrainingState())

    line = (tmp_path / "log.jsonl").read_text()
    assert line.startswith(module.UPDATE)
    assert json.loads(line) == update_entry(one)
