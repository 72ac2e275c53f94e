"""Trials are run, judged and recorded; the trials here train nothing."""

import os
import signal
import threading
import time

import pytest
from tests.sweep import fake_trial
from tests.sweep.conftest import make_plan
from tests.tiny import SETTINGS

from headwise.errors import DataError, ResourceError, SettingsError, Stopped
from headwise.recipe import resolve
from headwise.sweep import running_trial
from headwise.sweep.corpora import SharedCorpus
from headwise.sweep.ledger import Ledger, read_ledger
from headwise.sweep.runner import Runner
from headwise.training.signals import Interrupted

RATE = "training.learning_rate"


class NoCorpora:
    """In the place of prepared corpora, which a trial that trains nothing needs not."""

    def __init__(self, folder):
        self.folder = folder

    def get(self, recipe):
        return SharedCorpus(self.folder / "corpora" / "a", "b")


def recipe_of(assignments):
    return resolve(
        extra={**SETTINGS, "training": {**SETTINGS["training"], "warmup_steps": 1}},
        assignments=assignments,
    )


@pytest.fixture
def make_runner(tmp_path, monkeypatch):
    """Return a function that makes a runner of trials with these learning rates."""
    monkeypatch.setattr(running_trial, "MODULE", fake_trial.__name__)

    def make(*rates, jobs=1, prunes=True, search=None, seeds=(1,), trials=None):
        plan = make_plan(
            varied=[{"path": RATE, "values": [*rates]}],
            seeds=[*seeds],
            search="optuna" if search else "grid",
            trials=trials,
        )
        ledger = Ledger(tmp_path, plan)
        for seed in seeds:
            for rate in rates:
                ledger.add({RATE: rate}, seed)
        ledger.save_plan()
        said = []
        runner = Runner(
            ledger,
            recipe_of,
            NoCorpora(tmp_path),
            jobs=jobs,
            prunes=prunes,
            search=search,
            say=said.append,
            on_change=lambda trial: None,
        )
        runner.said = said
        return runner

    return make


def states(runner):
    written = read_ledger(runner.ledger.folder).trials
    assert written == runner.ledger.trials
    return [each.state for each in written]


@pytest.mark.parametrize("jobs", [1, 3])
def test_all_trials_are_run_and_recorded(make_runner, jobs):
    runner = make_runner(1.0, 2.0, jobs=jobs, seeds=(1, 2))
    runner.run()

    assert states(runner) == ["finished"] * 4
    assert [each.value for each in runner.ledger.trials] == [40.0, 80.0, 40.0, 80.0]
    first = runner.ledger.trials[0]
    assert (first.updates, first.tokens, first.minutes) == (40, 400, 0.4)
    assert first.reason == "40 updates are done"


def test_what_has_ended_is_not_run_again(make_runner):
    runner = make_runner(1.0, 2.0)
    runner.ledger.trials[0].state = "finished"
    runner.ledger.trials[1].state = "failed"
    runner.run()

    assert [each.updates for each in runner.ledger.trials] == [0, 0]


def test_the_loser_is_stopped_early(make_runner):
    """After 10 updates the others had 20, 30 and 40: 10 is below their median."""
    runner = make_runner(2.0, 3.0, 4.0, 1.0)
    runner.run()

    assert states(runner) == ["finished"] * 3 + ["stopped early"]
    loser = runner.ledger.trials[-1]
    assert (loser.updates, loser.value) == (11, 11.0)
    assert loser.reason == "behind the median of others"


def test_without_pruning_none_is_stopped(make_runner):
    runner = make_runner(2.0, 3.0, 4.0, 1.0, prunes=False)
    runner.run()

    assert states(runner) == ["finished"] * 4


def test_curves_of_earlier_trials_are_read_from_their_logs(make_runner, tmp_path):
    runner = make_runner(2.0, 3.0, 4.0, 1.0)
    for trial in runner.ledger.trials[:3]:
        trial.state = "finished"
        folder = tmp_path / trial.folder
        folder.mkdir(parents=True)
        score = (
            '{"name": "BLEU", "value": 50.0, "interval": null, "signature": "", '
            '"higher_is_better": true}'
        )
        (folder / "log.jsonl").write_text(
            '{"what": "validation", "step": 10, "name": "now", "loss": 1.0, "scores": '
            f'{{"bleu": {score}}}, "samples": [], "best": true, "seconds": 1.0}}\n',
            encoding="utf-8",
        )
    runner.run()

    assert states(runner)[-1] == "stopped early"


@pytest.mark.parametrize(
    ("rate", "error", "code"),
    [
        (fake_trial.FAILS, "the loss is nan", 7),
        (fake_trial.EXITS, "exit code 3: what it said last", 1),
        (fake_trial.IS_KILLED, "killed (SIGKILL), as where memory is short", 6),
    ],
)
def test_a_trial_that_fails_leaves_the_others_alone(make_runner, rate, error, code):
    runner = make_runner(rate, 2.0)
    runner.run()

    assert states(runner) == ["failed", "finished"]
    failed = runner.ledger.trials[0]
    assert error in failed.error
    assert failed.error_code == code
    assert any(error in each for each in runner.said)


def test_a_full_disk_ends_the_sweep_and_its_trial_waits(make_runner):
    runner = make_runner(fake_trial.DISK_IS_FULL, 2.0)
    with pytest.raises(ResourceError, match="no space"):
        runner.run()

    assert [each.state for each in runner.ledger.trials] == ["waiting", "waiting"]


def test_an_error_saves_what_else_runs(make_runner):
    rates = fake_trial.WAITS, fake_trial.DISK_IS_FULL
    runner = make_runner(*rates, jobs=2, seeds=[2])
    with pytest.raises(ResourceError):
        runner.run()

    assert runner.ledger.trials[0].state == "waiting"
    assert runner.ledger.trials[0].updates == 11


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, Stopped), (signal.SIGINT, Interrupted)]
)
def test_a_stop_signal_saves_all_trials_then_raises(
    make_runner, tmp_path, number, error
):
    runner = make_runner(fake_trial.WAITS, fake_trial.WAITS + 1, 1.0, jobs=2)

    def stop():
        while not (tmp_path / "trials" / "001" / fake_trial.READY).exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=stop).start()
    with pytest.raises(error):
        runner.run()

    first = runner.ledger.trials[0]
    assert (first.state, first.updates) == ("waiting", 11)
    assert "running" not in states(runner)


class Proposes:
    """Proposes rising learning rates, three of them."""

    def propose(self, trials):
        number = len({each.combination for each in trials})
        return {RATE: number + 1.0} if number < 3 else None


def test_a_search_proposes_when_nothing_waits(make_runner):
    runner = make_runner(search=Proposes(), seeds=(1, 2), trials=2)
    runner.run()

    assert states(runner) == ["finished"] * 4
    found = [(each.settings[RATE], each.seed) for each in runner.ledger.trials]
    assert found == [(1.0, 1), (1.0, 2), (2.0, 1), (2.0, 2)]


def test_a_search_without_further_proposals_ends(make_runner):
    runner = make_runner(search=Proposes(), trials=9)
    runner.run()

    assert len(runner.ledger.trials) == 3


@pytest.mark.parametrize(
    "error", [SettingsError(["two is refused"]), DataError("two is refused")]
)
def test_a_proposal_that_is_refused_fails_and_the_search_goes_on(make_runner, error):
    def refuses_two(assignments):
        if assignments == [f"{RATE}=2.0"]:
            raise error
        return recipe_of(assignments)

    runner = make_runner(search=Proposes(), trials=3)
    runner.recipe_of = refuses_two
    runner.run()

    assert states(runner) == ["finished", "failed", "finished"]
    assert runner.ledger.trials[1].error == "two is refused"
    assert runner.ledger.trials[1].error_code == error.exit_code
