"""The ledger: what was asked for, and one line a trial."""

import json

import pytest
from tests.sweep.conftest import make_plan

from headwise.errors import ModelError, ResourceError, SettingsError, UsageError
from headwise.sweep.ledger import (
    PLAN,
    TRIALS,
    Ledger,
    check_same_sweep,
    check_sweep_folder,
    read_ledger,
)


@pytest.fixture
def ledger(tmp_path):
    found = Ledger(tmp_path, make_plan())
    for rate in (0.1, 0.2):
        found.add({"training.learning_rate": rate}, 1)
    found.save_plan()
    found.save()
    return found


def test_what_was_saved_is_read_back(ledger):
    first = ledger.trials[0]
    first.state, first.value, first.updates = "stopped early", 31.25, 400
    ledger.save()

    found = read_ledger(ledger.folder)

    assert found == ledger
    assert found.find({"training.learning_rate": 0.1}, 1) == first
    assert found.find({"training.learning_rate": 0.1}, 2) is None


def test_each_trial_is_a_line_that_people_can_read(ledger):
    lines = (ledger.folder / TRIALS).read_text(encoding="utf-8").splitlines()

    assert [json.loads(line)["settings"] for line in lines] == [
        {"training.learning_rate": 0.1},
        {"training.learning_rate": 0.2},
    ]


def test_a_trial_that_is_there_is_not_added_twice(ledger):
    again = ledger.add({"training.learning_rate": 0.2}, 1)
    new = ledger.add({"training.learning_rate": 0.2}, 2)

    assert again is ledger.trials[1]
    assert (new.trial, new.folder) == (3, "trials/003")


def test_one_and_true_are_two_combinations(ledger):
    assert ledger.add({"a": 1}, 1) is not ledger.add({"a": True}, 1)


def test_what_has_not_changed_is_not_written(ledger, monkeypatch):
    """So the table of a finished sweep is printed on a full disk too."""

    def no_space(path, text):
        raise ResourceError("no space")

    monkeypatch.setattr("headwise.storage.write_text", no_space)
    ledger.save()
    ledger.save_plan()
    ledger.trials[0].state = "failed"
    with pytest.raises(ResourceError):
        ledger.save()


def test_there_is_no_ledger_in_a_folder_without_one(tmp_path):
    assert read_ledger(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (PLAN, "{"),
        (PLAN, '{"format": 1}'),
        (PLAN, '{"format": 2}'),
        (TRIALS, "{\n"),
        (TRIALS, '{"trial": 1}\n'),
        (TRIALS, '{"trial": 1, "settings": {}, "seed": 1, "state": "lost"}\n'),
        (TRIALS, '{"trial": 1, "settings": {}, "seed": 1, "colour": 2}\n'),
    ],
)
def test_a_damaged_ledger_is_a_model_error(ledger, name, text):
    (ledger.folder / name).write_text(text, encoding="utf-8")

    with pytest.raises(ModelError):
        read_ledger(ledger.folder)


def test_a_ledger_that_cannot_be_written_is_a_resource_error(ledger):
    (ledger.folder / TRIALS).unlink()
    (ledger.folder / TRIALS).mkdir()

    with pytest.raises(ResourceError):
        ledger.save()


def test_the_folder_of_something_else_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("x", encoding="utf-8")

    with pytest.raises(UsageError, match="contains file"):
        check_sweep_folder(tmp_path)
    with pytest.raises(UsageError, match="is a file"):
        check_sweep_folder(file)


def test_a_new_an_empty_and_a_sweeps_folder_are_taken(tmp_path, ledger):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")  # beside a ledger
    check_sweep_folder(tmp_path)
    check_sweep_folder(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    check_sweep_folder(tmp_path / "empty")


LIST = "training.learning_rate"


@pytest.mark.parametrize(
    "now",
    [
        {},
        {"seeds": [3, 2, 1]},
        {"varied": [{"path": LIST, "values": [0.4, 0.1, 0.2]}]},
    ],
)
def test_values_and_seeds_may_be_added(tmp_path, now):
    check_same_sweep(make_plan(), make_plan(**now), tmp_path)


def test_trials_of_a_search_may_be_added(tmp_path):
    before = make_plan(search="optuna", trials=3)
    check_same_sweep(before, make_plan(search="optuna", trials=5), tmp_path)


RECIPE = {"task": "translation", "training": {"measure": "chrf"}, "license": "mit"}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"recipe": RECIPE}, 'training.measure was "bleu" and is now "chrf"'),
        ({"recipe": RECIPE}, 'license was not set and is now "mit"'),
        ({"seeds": [2, 3]}, "seeds 1 were there and are not any more"),
        ({"search": "optuna"}, "search was grid and is now optuna"),
        ({"threads": 2}, "threads was 1 and is now 2"),
        ({"device": "cuda"}, "device was cpu and is now cuda"),
        (
            {"varied": [{"path": LIST, "values": [0.1, 0.3]}]},
            "training.learning_rate = 0.2 was varied and is not any more",
        ),
        (
            {"varied": [{"path": LIST, "low": 0.1, "high": 0.2, "log": True}]},
            "training.learning_rate was varied otherwise",
        ),
        (
            {"varied": [{"path": "model.norm", "values": ["pre", "post"]}]},
            "training.learning_rate was varied, and now model.norm",
        ),
    ],
)
def test_another_sweep_is_refused_with_what_differs(tmp_path, now, said):
    with pytest.raises(SettingsError) as caught:
        check_same_sweep(make_plan(), make_plan(**now), tmp_path)

    assert said in str(caught.value)
    assert "contains another sweep" in str(caught.value)


def test_a_search_has_no_fewer_trials_than_before(tmp_path):
    before = make_plan(search="optuna", trials=3)
    with pytest.raises(SettingsError, match="trials were 3 and are now 2"):
        check_same_sweep(before, make_plan(search="optuna", trials=2), tmp_path)
