"""What a trial reports to its sweep, and how it is stopped."""

import errno
import io
import json
import signal
from pathlib import Path

import pytest

from headwise.errors import NumericsError, ResourceError, SettingsError, UsageError
from headwise.storage import resource_error
from headwise.sweep.trial_process import ReportToSweep, as_json_lines, failure
from headwise.training.settings import TrainingSettings
from headwise.training.signals import StopSignals
from headwise.training.state import TrainingState
from headwise.training.validation import Validation

STATE = TrainingState(step=10, tokens=500, seconds=30.0, best_value=1.5, best_step=10)
VALIDATION = Validation(loss=1.5, scores={}, num_scored=0, samples=())


class Report(ReportToSweep):
    """A report of which the sweep's answers are given beforehand."""

    def __init__(self, answers):
        self.signals = StopSignals()
        self.sent = io.StringIO()
        super().__init__("loss", self.signals, io.StringIO(answers), self.sent)
        self.on_start(TrainingState(), TrainingSettings(steps=40), epoch_batches=5)


def test_a_validation_is_reported_with_what_it_has_cost():
    report = Report("go\n")
    report.on_validation(VALIDATION, STATE, "now", best=True)

    assert json.loads(report.sent.getvalue()) == {
        "what": "validation",
        "step": 10,
        "last_step": 40,
        "value": 1.5,
        "tokens": 500,
        "minutes": 0.5,
        "best_value": 1.5,
        "best_step": 10,
    }


def test_it_stops_after_the_update_that_follows_the_answer():
    report = Report("stop\n")
    report.on_validation(VALIDATION, STATE, "now", best=True)
    assert report.signals.received is None  # the validation is saved as it is

    report.on_step(None, STATE)
    assert report.signals.received == signal.SIGTERM
    assert report.was_stopped


@pytest.mark.parametrize("answer", ["go\n", ""])
def test_it_goes_on_otherwise_and_if_nobody_answers(answer):
    report = Report(answer)
    report.on_validation(VALIDATION, STATE, "now", best=True)
    report.on_step(None, STATE)

    assert report.signals.received is None
    assert not report.was_stopped


def test_averaged_checkpoints_are_not_judged():
    report = Report("stop\n")
    report.on_validation(VALIDATION, STATE, "mean of the last 2 checkpoints", best=True)
    report.on_step(None, STATE)

    assert report.sent.getvalue() == ""
    assert report.signals.received is None


def test_failures_are_those_of_the_trial_but_for_disk_and_usage():
    full = resource_error(OSError(errno.ENOSPC, "No space left on device"), Path("x"))
    try:
        raise full from OSError(errno.ENOSPC, "No space left on device")
    except ResourceError as error:
        of_disk = failure(error)

    assert of_disk["ends_sweep"]
    assert of_disk["code"] == 6
    assert failure(UsageError("another process"))["ends_sweep"]
    assert failure(NumericsError("nan")) == {
        "error": "nan",
        "code": 7,
        "ends_sweep": False,
    }
    assert not failure(SettingsError(["no"]))["ends_sweep"]
    assert failure(ResourceError("too little memory"))["ends_sweep"] is False
    assert failure(MemoryError()) == {"error": "out of memory", "code": 6}
    assert failure(ZeroDivisionError("x")) == {
        "error": "ZeroDivisionError: x",
        "code": 1,
    }


def test_outputs_are_a_line_for_each_pair():
    text = as_json_lines(["a\u2028"], ["é"], ["c"])

    assert [json.loads(line) for line in text.split("\n")[:-1]] == [
        {"source": "a\u2028", "reference": "é", "output": "c"}
    ]
