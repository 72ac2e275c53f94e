"""Proposals of Optuna, which are a function of the ledger."""

import sys

import pytest

from headwise.errors import ResourceError
from headwise.sweep.ledger import Trial
from headwise.sweep.optuna_search import OptunaSearch, import_optuna
from headwise.sweep.space import Choices, Range

pytest.importorskip("optuna")

SPACE = [
    Range("rate", 1e-4, 1e-2, log=True),
    Range("layers", 1, 6, log=False),
    Choices("norm", ("pre", "post")),
    Choices("symbols", (["a"], [])),
]


def search(varied=SPACE, seed=1):
    return OptunaSearch(varied, seed, lower_is_better=False)


def run(count, search, value):
    """Return the trials of so many proposals, each with its ``value``."""
    trials = []
    for number in range(1, count + 1):
        settings = search.propose(trials)
        trials.append(
            Trial(
                trial=number,
                settings=settings,
                seed=1,
                state="finished",
                value=value(settings),
                updates=10,
            )
        )
    return trials


def test_proposals_are_inside_the_space():
    for trial in run(12, search(), lambda settings: settings["rate"]):
        assert 1e-4 <= trial.settings["rate"] <= 1e-2
        assert trial.settings["layers"] in range(1, 7)
        assert trial.settings["norm"] in ("pre", "post")
        assert trial.settings["symbols"] in (["a"], [])


def test_the_same_ledger_has_the_same_next_proposal():
    """So a sweep that was interrupted goes on as one that was not."""
    trials = run(11, search(), lambda settings: -abs(settings["layers"] - 3))

    assert search().propose(trials) == search().propose(trials)
    assert search().propose(trials[:5]) == trials[5].settings
    assert search(seed=2).propose(trials) != search().propose(trials)


def test_proposals_gather_where_values_are_good():
    varied = [Range("x", 0.0, 1.0, log=False)]
    trials = run(30, search(varied), lambda settings: -abs(settings["x"] - 0.8))

    late = [abs(each.settings["x"] - 0.8) for each in trials[-10:]]
    early = [abs(each.settings["x"] - 0.8) for each in trials[:10]]
    assert sum(late) < sum(early) / 2


@pytest.mark.parametrize("state", ["waiting", "running", "failed", "stopped early"])
def test_trials_of_every_state_are_replayed(state):
    trials = run(3, search(), lambda settings: 1.0)
    trials[-1].state = state
    if state == "failed":
        trials[-1].value = None

    assert search().propose(trials) is not None


def test_no_combination_is_proposed_twice_and_a_small_space_ends():
    varied = [Choices("norm", ("pre", "post"))]
    trials = run(2, search(varied), lambda settings: 1.0)

    assert {each.settings["norm"] for each in trials} == {"pre", "post"}
    assert search(varied).propose(trials) is None


def test_without_optuna_the_command_that_installs_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)

    with pytest.raises(ResourceError, match=r"pip install 'headwise\[sweep\]'"):
        import_optuna()


def test_any_seed_that_a_recipe_may_have_is_taken():
    assert search(seed=2**32 + 1).propose([]) == search(seed=1).propose([])
    assert search(seed=2**32 - 1).propose(run(2, search(), lambda _: 1.0))
