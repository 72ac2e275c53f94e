"""The log holds one JSON object a line, and each update once, whatever happened."""

import json
import os

import pytest

from headwise.errors import ResourceError
from headwise.metrics.score import Score
from headwise.training.callbacks import StepMetrics
from headwise.training.log import JsonLog
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.validation import Sample, Validation

SETTINGS = TrainingSettings()


def update(step):
    return StepMetrics(
        step=step,
        loss=2.5,
        learning_rate=0.1,
        gradient_norm=1.0,
        tokens=100,
        seconds=0.5,
    )


VALIDATION = Validation(
    loss=1.0,
    scores={"bleu": Score("BLEU", 12.5, "sig", True)},
    num_scored=1,
    samples=(Sample(source="a\u2028b", reference="ü", output="c\nd"),),
)


@pytest.fixture
def log(tmp_path):
    return JsonLog(tmp_path / "log.jsonl")


def entries(log):
    lines = log.path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    return [json.loads(line) for line in lines]


def a_run(log, first, last, *, validated=()):
    log.on_start(TrainingState(step=first - 1), SETTINGS, 10)
    for step in range(first, last + 1):
        state = TrainingState(step=step)
        log.on_step(update(step), state)
        if step in validated:
            log.on_validation(VALIDATION, state, "now", True)


def steps_of(log, what="update"):
    return [entry["step"] for entry in entries(log) if entry["what"] == what]


def test_each_event_is_one_line(log):
    a_run(log, 1, 2, validated=[2])
    log.on_message("a note")
    log.on_end(TrainingState(step=2, seconds=3.0), "2 updates are done")

    found = entries(log)
    assert [entry["what"] for entry in found] == [
        *("start", "update", "update", "validation", "note", "end")
    ]
    assert found[1]["loss"] == 2.5
    assert found[3]["scores"]["bleu"]["signature"] == "sig"
    assert found[3]["samples"][0]["output"] == "c\nd"
    assert found[-1] == {
        "what": "end",
        "step": 2,
        "seconds": 3.0,
        "reason": "2 updates are done",
    }


def test_resuming_removes_the_updates_that_will_be_repeated(log):
    """Killed after update 5; the checkpoint is of update 3."""
    a_run(log, 1, 5, validated=[3])

    log.on_start(TrainingState(step=3, validated_step=3), SETTINGS, 10)

    assert steps_of(log) == [1, 2, 3]
    assert steps_of(log, "validation") == [3]
    assert steps_of(log, "start") == [0, 3]


def test_resuming_removes_the_validation_that_will_be_repeated(log):
    """Stopped while step 3 was validated: the state does not hold that yet."""
    a_run(log, 1, 3, validated=[3])

    log.on_start(TrainingState(step=3, validated_step=0), SETTINGS, 10)

    assert steps_of(log) == [1, 2, 3]
    assert steps_of(log, "validation") == []


def test_a_file_name_in_another_encoding_is_logged(log):
    """A folder whose name is not UTF-8 ended training, with a UnicodeEncodeError."""
    log.on_message("caf\udce9: é")

    assert [each["text"] for each in entries(log)] == ["caf\udce9: é"]
    assert log.path.read_bytes().isascii()


def test_resuming_removes_the_validation_of_the_average_too(log):
    a_run(log, 1, 3, validated=[3])
    log.on_validation(VALIDATION, TrainingState(step=3), "mean of the last 2", True)

    log.on_start(TrainingState(step=3, validated_step=3), SETTINGS, 10)

    assert [e["name"] for e in entries(log) if e["what"] == "validation"] == ["now"]


@pytest.mark.parametrize(
    "half",
    [
        b'{"what": "update", "st',
        '{"what": "note", "text": "für"}'.encode()[:-4],  # within a character
        b"\x00" * 5000,  # what some disks leave after a power cut
        b'\x00\x00\n\x00\n\xff\xfe\n7\nnull\n"what"\n',
        b"[" * 100_000,
        b"[1, 2]",
        b'{"what": "update", "step": "three"}',
    ],
)
def test_a_partial_last_line_is_removed(log, half):
    a_run(log, 1, 2)
    with log.path.open("ab") as file:
        file.write(half)

    log.on_start(TrainingState(step=2), SETTINGS, 10)
    log.on_step(update(3), TrainingState(step=3))

    assert steps_of(log) == [1, 2, 3]


def test_the_log_is_synced_before_a_checkpoint(log, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle)))
    a_run(log, 1, 2)
    log.sync()

    places = [os.stat(log.path), os.stat(log.path.parent)]
    assert [each.st_ino for each in synced] == [each.st_ino for each in places]


def test_a_log_with_nothing_to_cut_is_left_as_it_is(log):
    a_run(log, 1, 2)
    before = os.stat(log.path).st_ino
    log.on_start(TrainingState(step=2), SETTINGS, 10)

    assert os.stat(log.path).st_ino == before


def test_a_new_run_starts_an_empty_log(log):
    log.on_start(TrainingState(), SETTINGS, 10)

    (entry,) = entries(log)
    assert (entry["what"], entry["steps"]) == ("start", SETTINGS.steps)


def test_a_log_that_cannot_be_written_is_an_error(tmp_path):
    log = JsonLog(tmp_path / "missing" / "log.jsonl")

    with pytest.raises(ResourceError, match=r"log\.jsonl cannot be written"):
        log.on_message("something")
