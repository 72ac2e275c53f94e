"""A sweep in its folder, begun and gone on with; its trials train nothing."""

import json
from dataclasses import replace

import pytest
from tests.sweep import fake_trial
from tests.sweep.test_runner import NoCorpora, recipe_of

from headwise.errors import DataError, SettingsError
from headwise.sweep import run_sweep as module
from headwise.sweep import running_trial
from headwise.sweep.corpora import SharedCorpus
from headwise.sweep.ledger import PLAN, REPORT, Ledger, read_ledger
from headwise.sweep.recipes import check_recipes
from headwise.sweep.run_sweep import (
    Request,
    TrialsFailedError,
    check_any_ended_well,
    run_sweep,
)
from headwise.sweep.space import Choices, Range

RATE = "training.learning_rate"


@pytest.fixture(autouse=True)
def trains_nothing(monkeypatch):
    monkeypatch.setattr(running_trial, "MODULE", fake_trial.__name__)
    monkeypatch.setattr(module, "Corpora", lambda folder, seed, say: NoCorpora(folder))


@pytest.fixture
def request_of(tmp_path):
    def make(*rates, **changes):
        varied = [Choices(RATE, rates)]
        request = Request(
            folder=tmp_path / "sweep",
            recipe_of=recipe_of,
            base=check_recipes(recipe_of, varied),
            varied=varied,
            search="grid",
            seeds=[1],
            trials=None,
            device="cpu",
            threads=1,
            jobs=1,
            prunes=True,
            retries=False,
            baseline="best",
        )
        return replace(request, **changes)

    return make


def run(request):
    said, shown = [], []
    ledger, rows = run_sweep(request, said.append, lambda *now: shown.append(now))
    return ledger, rows, said, shown


def states(ledger):
    return [each.state for each in ledger.trials]


def test_the_best_combination_is_first_and_the_table_is_shown_on_the_way(request_of):
    ledger, rows, _, shown = run(request_of(1.0, 3.0, 2.0))

    assert [row.settings[RATE] for row in rows] == [3.0, 2.0, 1.0]
    assert len(shown) == 2  # not after the last
    assert (ledger.folder / REPORT).is_file()


def test_trials_are_in_the_order_of_seeds(request_of):
    ledger, *_ = run(request_of(1.0, 2.0, seeds=[4, 2]))

    found = [(each.seed, each.settings[RATE]) for each in ledger.trials]
    assert found == [(4, 1.0), (4, 2.0), (2, 1.0), (2, 2.0)]


def test_what_was_stopped_early_goes_on_without_pruning(request_of):
    ledger, *_ = run(request_of(2.0, 3.0, 4.0, 1.0))
    assert states(ledger)[-1] == "stopped early"

    ledger, *_ = run(request_of(2.0, 3.0, 4.0, 1.0))
    assert states(ledger)[-1] == "stopped early"

    ledger, *_ = run(request_of(2.0, 3.0, 4.0, 1.0, prunes=False))
    assert states(ledger)[-1] == "finished"
    assert ledger.trials[-1].reason == "40 updates are done"


def test_what_failed_runs_again_if_that_is_asked_for(request_of, monkeypatch):
    ledger, *_ = run(request_of(fake_trial.FAILS, 1.0))
    assert states(ledger) == ["failed", "finished"]

    monkeypatch.setattr(running_trial, "MODULE", "no.such.module")
    ledger, *_ = run(request_of(fake_trial.FAILS, 1.0))
    assert ledger.trials[0].error == "the loss is nan"

    ledger, *_ = run(request_of(fake_trial.FAILS, 1.0, retries=True))
    assert states(ledger) == ["failed", "finished"]
    assert "no.such.module" in ledger.trials[0].error


def test_a_trial_of_a_killed_sweep_runs_again(request_of):
    ledger, *_ = run(request_of(1.0, 2.0))
    ledger.trials[1].state = "running"
    ledger.save()

    _, _, said, _ = run(request_of(1.0, 2.0))

    assert any(each.startswith("2 trials, 1 to run") for each in said)
    assert states(read_ledger(ledger.folder)) == ["finished"] * 2


def test_a_sweep_that_never_began_may_be_started_otherwise(request_of):
    request = request_of(1.0, 2.0)
    request.folder.mkdir()
    ledger, *_ = run(request)
    for trial in ledger.trials:
        trial.state, trial.updates = "waiting", 0
    ledger.save()

    ledger, *_ = run(request_of(5.0, 6.0))

    assert [each.settings[RATE] for each in ledger.trials] == [5.0, 6.0]


def test_one_that_has_begun_may_not(request_of):
    run(request_of(1.0, 2.0))

    with pytest.raises(SettingsError, match="contains another sweep"):
        run(request_of(5.0, 6.0))


def test_values_that_are_added_first_do_not_change_the_sweep(request_of):
    run(request_of(1.0, 2.0))
    ledger, *_ = run(request_of(3.0, 1.0, 2.0))

    assert [each.settings[RATE] for each in ledger.trials] == [1.0, 2.0, 3.0]
    assert read_ledger(ledger.folder).plan.varied == [
        {"path": RATE, "values": [3.0, 1.0, 2.0]}
    ]


def test_seeds_are_added(request_of):
    run(request_of(1.0, 2.0))
    ledger, rows, said, _ = run(request_of(1.0, 2.0, seeds=[1, 2]))

    assert any(each.startswith("4 trials, 2 to run") for each in said)
    assert [(each.trial, each.seed) for each in ledger.trials] == [
        *((1, 1), (2, 1), (3, 2), (4, 2)),
    ]
    assert rows[0].deviation == 0


def test_optuna_proposes_and_goes_on_with_more_trials(request_of):
    pytest.importorskip("optuna")
    varied = [Range(RATE, 1e-3, 1e-1, log=True)]
    base = check_recipes(recipe_of, varied)
    search = {"search": "optuna", "varied": varied, "base": base}

    first, *_ = run(request_of(1.0, 2.0, trials=2, **search))
    again, *_ = run(request_of(1.0, 2.0, trials=3, seeds=[1, 2], **search))

    assert len(first.trials) == 2
    assert states(again) == ["finished"] * 6
    assert [each.settings for each in again.trials[:2]] == [
        each.settings for each in first.trials
    ]
    assert len({each.combination for each in again.trials}) == 3
    assert all(1e-3 <= each.settings[RATE] <= 1e-1 for each in again.trials)


def test_text_that_has_changed_is_a_data_error(request_of, monkeypatch):
    run(request_of(1.0, 2.0))

    other = SharedCorpus(request_of(1.0, 2.0).folder / "corpora" / "other", "b")
    monkeypatch.setattr(NoCorpora, "get", lambda self, recipe: other)
    with pytest.raises(DataError, match="the text of trial 1"):
        run(request_of(1.0, 2.0))


def test_a_report_that_cannot_be_written_ends_no_sweep(request_of):
    request = request_of(1.0, 2.0)
    request.folder.mkdir()
    run(request)
    (request.folder / REPORT).unlink()
    (request.folder / REPORT).mkdir()

    _, _, said, _ = run(request)

    assert sum("could not be updated" in each for each in said) == 1


def test_every_trial_failed_is_an_error_with_the_code_of_the_first(request_of):
    ledger, *_ = run(request_of(fake_trial.FAILS, fake_trial.EXITS))

    with pytest.raises(TrialsFailedError, match="the loss is nan") as caught:
        check_any_ended_well(ledger)
    assert caught.value.exit_code == 7


def test_one_that_finished_is_enough(request_of, tmp_path):
    ledger, *_ = run(request_of(fake_trial.FAILS, 1.0))
    check_any_ended_well(ledger)
    check_any_ended_well(Ledger(tmp_path, ledger.plan))


def test_a_sweep_of_an_older_version_goes_on(request_of):
    """It has not the settings that were added since, and no seed of its recipe."""
    ledger, *_ = run(request_of(1.0, 2.0))
    path = ledger.folder / PLAN
    plan = json.loads(path.read_text(encoding="utf-8"))
    del plan["recipe"]["training"]["r_drop"], plan["seed"]
    path.write_text(json.dumps(plan), encoding="utf-8")

    ledger, *_ = run(request_of(1.0, 2.0, 3.0))

    assert states(ledger) == ["finished"] * 3


def test_another_seed_of_the_recipe_is_named(request_of):
    """All texts were prepared by it."""
    request = request_of(1.0, 2.0)
    run(request)

    other = replace(request, base=replace(request.base, seed=7))
    with pytest.raises(SettingsError, match="seed was 1 and is now 7"):
        run(other)
