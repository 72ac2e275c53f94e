"""Trials say what training took, of the clock and of processors."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

BUSY = "import time\nwhile time.process_time() < {seconds}: pass"
"""A program that ends when it has had a processor for so long."""


@pytest.fixture
def trials(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import trials

    return trials


def work(seconds):
    """Keep a processor busy, and wait as long once more."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    time.sleep(seconds)


def test_processor_minutes_count_work_and_no_waiting(trials, monkeypatch, tmp_path):
    monkeypatch.setattr(trials, "train_run", lambda *_, **__: work(0.5))

    _, minutes = trials.timed_training(tmp_path, None, None)

    assert 0.45 < 60 * minutes < 1.0  # with the wait it would be a second


def test_processor_minutes_count_the_processes_of_training(
    trials, monkeypatch, tmp_path
):
    code = BUSY.format(seconds=0.5)
    monkeypatch.setattr(
        trials,
        "train_run",
        lambda *_, **__: subprocess.run([sys.executable, "-c", code], check=True),
    )

    _, minutes = trials.timed_training(tmp_path, None, None)

    assert 60 * minutes > 0.45  # and what its start takes


def test_of_a_resumed_trial_no_processor_minutes_are_told(
    trials, monkeypatch, tmp_path
):
    """The time of the processes that trained before is not known."""
    (tmp_path / "checkpoints" / "step-00000010").mkdir(parents=True)
    monkeypatch.setattr(trials, "train_run", lambda *_, **__: "the state")

    assert trials.timed_training(tmp_path, None, None) == ("the state", None)
