"""Recipes of trials are checked before anything starts."""

import pytest
from tests.tiny import SETTINGS

from headwise.errors import SettingsError
from headwise.recipe import resolve
from headwise.sweep.recipes import (
    check_recipes,
    shared_settings,
    trial_recipe,
    with_later_settings,
)
from headwise.sweep.space import Choices, Range


def recipe_of(assignments):
    return resolve(extra=SETTINGS, assignments=assignments)


def test_every_combination_is_checked_and_all_problems_are_said():
    varied = [
        Choices("model.num_heads", (2, 3)),
        Choices("training.learning_rate", (0.1, -1)),
        Choices("model.nrom", ("pre", "post")),
    ]
    with pytest.raises(SettingsError) as caught:
        check_recipes(recipe_of, varied)

    text = str(caught.value)
    assert "model.nrom is not a setting; did you mean model.norm?" in text
    assert "training.learning_rate must be more than 0 and finite, not -1.0" in text


def test_a_problem_of_two_values_together_is_found():
    """Sixteen channels divide by two heads and by four, and twelve not by eight."""
    varied = [Choices("model.d_model", (16, 12)), Choices("model.num_heads", (4, 8))]

    with pytest.raises(SettingsError, match="num_heads=8"):
        check_recipes(recipe_of, varied)


def test_both_ends_of_a_range_are_checked():
    low = [Range("model.dropout", -0.1, 0.5, log=False)]
    high = [Range("model.dropout", 0.0, 1.5, log=False)]

    for varied in (low, high):
        with pytest.raises(SettingsError, match="dropout"):
            check_recipes(recipe_of, varied)


def test_the_recipe_of_the_first_combination_is_returned():
    found = check_recipes(recipe_of, [Choices("training.learning_rate", (0.5, 0.1))])
    assert found.training.learning_rate == 0.5


def test_a_trial_has_its_settings_and_its_seed():
    found = trial_recipe(recipe_of, {"model.norm": "pre"}, 7)

    assert found.model.norm == "pre"
    assert found.seed == 7


def test_shared_settings_are_those_that_do_not_vary():
    found = shared_settings(recipe_of([]), ["model.norm", "must_export_to"])

    assert "seed" not in found
    assert "must_export_to" not in found
    assert "norm" not in found["model"]
    assert found["model"]["d_model"] == 16


def test_settings_that_a_later_version_has_added_have_their_defaults():
    recipe = resolve(extra={"training": {"r_drop": 0.0, "learning_rate": 0.002}})
    now = shared_settings(recipe, ["training.steps"])
    begun = shared_settings(recipe, ["training.steps"])
    for name in ("r_drop", "simcut", "bpe_dropout"):
        del begun["training"][name]

    assert with_later_settings(begun, ["training.steps"]) == now
    changed = resolve(extra={"training": {"r_drop": 5.0, "learning_rate": 0.002}})
    assert with_later_settings(begun, []) != shared_settings(changed, [])
