"""Stop signals are raised between two steps, or at once."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from tests.processes import environment, seconds_to_end
from tests.training.test_distributed import SETTINGS

from headwise.errors import Stopped
from headwise.training.signals import (
    LISTENER,
    SIGNALS,
    Interrupted,
    StopSignals,
    Watchdog,
    stop_signals_raise,
)


def send(number):
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def handlers_are_put_back():
    found = [signal.getsignal(each) for each in SIGNALS]
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # somebody tests under nohup
    before = [signal.getsignal(each) for each in SIGNALS]
    yield
    after = [signal.getsignal(each) for each in SIGNALS]
    for each, handler in zip(SIGNALS, found, strict=True):
        signal.signal(each, handler)
    assert after == before


def test_without_a_signal_nothing_is_raised():
    with StopSignals() as signals:
        signals.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_is_raised_by_the_next_check(number):
    with StopSignals() as signals:
        send(number)
        done = "work goes on"
        with pytest.raises(Stopped, match=number.name):
            signals.check()

    assert done


def test_ctrl_c_is_raised_by_the_next_check_as_keyboard_interrupt():
    with StopSignals() as signals:
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="everything is saved") as caught:
            signals.check()

    assert caught.type is Interrupted


def test_a_second_ctrl_c_interrupts_at_once():
    with StopSignals() as signals:
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt) as caught:
            send(signal.SIGINT)
        assert caught.type is KeyboardInterrupt
        signals.received = None


def test_a_signal_is_raised_once():
    with StopSignals() as signals:
        send(signal.SIGTERM)
        with pytest.raises(Stopped):
            signals.check()
        signals.check()


def test_a_signal_during_the_last_step_is_raised_at_the_end():
    """It came after the last question; what follows training must not start."""
    with pytest.raises(Stopped), StopSignals():
        send(signal.SIGTERM)


def test_an_error_is_not_covered_by_a_signal():
    def fail():
        send(signal.SIGTERM)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), StopSignals():
        fail()


def test_ignored_signals_stay_ignored():
    """As nohup has it for SIGHUP, and shells for SIGINT of what runs behind."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            send(signal.SIGHUP)
            signals.check()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_leaves_the_handlers_alone():
    found = []

    def work():
        with StopSignals(), stop_signals_raise():
            found.append([signal.getsignal(each) for each in SIGNALS])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert found == [[signal.getsignal(each) for each in SIGNALS]]


def test_sigterm_stops_at_once_without_checks():
    with pytest.raises(Stopped, match="SIGTERM"), stop_signals_raise():
        send(signal.SIGTERM)


def test_stop_signals_wait_inside_the_block():
    with stop_signals_raise(), StopSignals() as signals:
        send(signal.SIGTERM)
        assert signals.received == signal.SIGTERM
        signals.received = None


class TestAlarm:
    """What acts where the main thread is too busy to."""

    @pytest.fixture
    def acted(self):
        return queue.Queue()

    @contextmanager
    def armed(self, acted, grace_seconds, number=signal.SIGTERM):
        before = signal.signal(number, lambda number, frame: None)
        watchdog = Watchdog(acted.put, grace_seconds)
        watchdog.arm()
        try:
            yield watchdog
        finally:
            watchdog.disarm()
            signal.signal(number, before)

    def test_a_signal_that_nobody_acknowledges_is_acted_on_in_another_thread(
        self, acted
    ):
        with self.armed(acted, 0.01):
            send(signal.SIGTERM)

            assert acted.get(timeout=10) == signal.SIGTERM

    def test_a_signal_that_was_acknowledged_is_left_alone(self, acted):
        with self.armed(acted, 0.2) as watchdog:
            send(signal.SIGTERM)
            watchdog.acknowledge()

            with pytest.raises(queue.Empty):
                acted.get(timeout=0.5)

    def test_a_disarmed_alarm_acts_no_more_and_its_thread_ends(self, acted):
        with self.armed(acted, 0.1):
            assert LISTENER in [each.name for each in threading.enumerate()]
            send(signal.SIGTERM)

        with pytest.raises(queue.Empty):
            acted.get(timeout=0.5)
        assert LISTENER not in [each.name for each in threading.enumerate()]

    def test_other_signals_are_none_of_its_business(self, acted):
        with self.armed(acted, 0.01, signal.SIGUSR1):
            send(signal.SIGUSR1)

            with pytest.raises(queue.Empty):
                acted.get(timeout=0.3)


STOPPED_ON_ITS_WAY_OUT = """
import atexit, os, signal
from headwise.cli.app import main

for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    atexit.register(os.kill, os.getpid(), each)
main()
"""


def test_a_signal_that_comes_when_all_is_done_does_not_change_the_exit_code():
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_ON_ITS_WAY_OUT, "--version"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


STUCK = """
import sys, time
from headwise.cli.app import main
from headwise.training.micro_batch import MicroBatchRunner

whole_loss, calls = MicroBatchRunner.loss, []

def loss(self, micro_batch, *rng_key):
    calls.append(micro_batch)
    if len(calls) == 6:
        print("stuck", flush=True)
        time.sleep(600)
    return whole_loss(self, micro_batch, *rng_key)

MicroBatchRunner.loss = loss
main()
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)]
)
def test_a_long_step_is_aborted_and_the_state_before_it_is_saved(
    corpus, tmp_path, number, code
):
    settings = {**SETTINGS, "training.accumulate": 1}
    assignments = [f"--set={name}={value}" for name, value in settings.items()]
    command = ["train", str(corpus.folder), "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, *command, *assignments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "stuck\n"
    process.send_signal(number)
    _, said = process.communicate(timeout=60)

    assert process.returncode == code, said
    assert "everything is saved" in said
    assert "Traceback" not in said
    # One call was for the trial before the first update; the sixth one is stuck.
    (checkpoint,) = (tmp_path / "run" / "checkpoints").iterdir()
    assert checkpoint.name == "step-00000004"
    entries = map(json.loads, (tmp_path / "run" / "log.jsonl").read_text().splitlines())
    what = [entry["what"] for entry in entries if entry["what"] != "note"]
    assert what == ["start", *["update"] * 4, "end"]

    resumed = subprocess.run(
        [sys.executable, "-m", "headwise", *command, *assignments],
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert resumed.returncode == 0
    assert "going on from step 4" in resumed.stderr


BUSY = """
import os, time
from headwise.cli.app import main
from headwise.run_folder.checkpoints import Checkpoints
from headwise.tasks.translation.task import Translation
from headwise.training.micro_batch import MicroBatchRunner

def take(seconds, owner, name, number):
    whole, calls = getattr(owner, name), []

    def method(*arguments, **options):
        calls.append(name)
        if len(calls) == number:
            print("busy", flush=True)
            time.sleep(seconds)
        return whole(*arguments, **options)

    setattr(owner, name, method)

{
    "a short update": lambda: take(0.1, MicroBatchRunner, "loss", 6),
    "a long update": lambda: take(600, MicroBatchRunner, "loss", 6),
    "a long validation": lambda: take(600, Translation, "predict", 1),
    "a checkpoint": lambda: take(1.0, Checkpoints, "save", 1),
}[os.environ["MOMENT"]]()
main()
"""

MOST_SECONDS = 5.0
"""What is promised; the work itself sleeps here, and takes no processor's time."""


@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [
        ("a short update", signal.SIGTERM, 75),
        ("a short update", signal.SIGINT, 130),
        ("a long update", signal.SIGTERM, 75),
        ("a long validation", signal.SIGTERM, 75),
        ("a long validation", signal.SIGINT, 130),
        ("a checkpoint", signal.SIGTERM, 75),
    ],
)
def test_training_ends_within_five_seconds_of_a_signal_with_all_updates_saved(
    corpus, tmp_path, moment, number, code
):
    run = tmp_path / "run"
    settings = {**SETTINGS, "training.accumulate": 1}
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY, "train", str(corpus.folder), "--out", str(run)]
        + [f"--set={name}={value}" for name, value in settings.items()],
        env=environment(MOMENT=moment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "busy\n"
    process.send_signal(number)
    took = seconds_to_end(process)
    _, said = process.communicate(timeout=60)

    assert process.returncode == code, said
    assert took <= MOST_SECONDS
    entries = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    updates = [entry["step"] for entry in entries if entry["what"] == "update"]
    assert len(updates) >= 4
    newest = max(each.name for each in (run / "checkpoints").iterdir())
    assert newest == f"step-{updates[-1]:08d}"
