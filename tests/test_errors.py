"""Errors: each brings the exit code that scripts may rely on."""

import copy
import inspect
import pickle

import pytest

from headwise import errors
from headwise.errors import HeadwiseError, SettingsError

CONTRACT = {
    "HeadwiseError": 1,
    "UsageError": 2,
    "SettingsError": 3,
    "DataError": 4,
    "ModelError": 5,
    "ResourceError": 6,
    "NumericsError": 7,
    "Stopped": 75,
    "Cancelled": 1,  # by threads of our own, which handle it
}


def test_every_exit_code_stands_in_the_contract():
    ours = {
        name: kind.exit_code
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, Exception) and not issubclass(kind, Warning)
    }
    assert ours == CONTRACT


@pytest.mark.parametrize("name", CONTRACT)
def test_one_except_clause_catches_them_all(name):
    assert issubclass(getattr(errors, name), HeadwiseError)


@pytest.mark.parametrize("name", ["UsageError", "SettingsError"])
def test_what_a_caller_asked_for_wrongly_is_a_value_error_too(name):
    assert issubclass(getattr(errors, name), ValueError)


def test_a_settings_error_shows_one_line_a_problem():
    error = SettingsError(["steps is 0", "seed is not a number"])

    assert str(error) == "- steps is 0\n- seed is not a number"
    assert error.problems == ["steps is 0", "seed is not a number"]


def test_the_problems_cannot_be_changed_through_the_callers_list():
    problems = ["steps is 0"]
    error = SettingsError(problems)
    problems.append("another")

    assert error.problems == ["steps is 0"]


def test_one_text_is_not_taken_for_a_list_of_letters():
    with pytest.raises(AssertionError):
        SettingsError("steps is 0")


@pytest.mark.parametrize("travel", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_settings_error_survives_the_way_back_from_a_worker_process(travel):
    """Rebuilt from its text alone, it used to list the letters as problems."""
    error = travel(SettingsError(["steps is 0", "seed is 1"]))

    assert error.problems == ["steps is 0", "seed is 1"]
    assert str(error) == "- steps is 0\n- seed is 1"
