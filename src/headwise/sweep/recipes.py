"""The recipes of trials: resolved, and checked, before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwise.errors import SettingsError
from headwise.recipe import Recipe, resolve
from headwise.settings import as_table, merged, with_new_names
from headwise.sweep.space import (
    Choices,
    Settings,
    Varied,
    assignments_of,
    combinations,
)

RecipeOf = Callable[[Sequence[str]], Recipe]
"""Returns the recipe with assignments such as ``training.learning_rate=0.001``."""


def trial_recipe(recipe_of: RecipeOf, settings: Mapping[str, Any], seed: int) -> Recipe:
    """Return the recipe of a trial; raise ``SettingsError`` if it is refused."""
    return replace(recipe_of(assignments_of(settings)), seed=seed)


def check_recipes(recipe_of: RecipeOf, varied: Sequence[Varied]) -> Recipe:
    """Check what will be trained; return the recipe of the first combination.

    Of a grid, every combination is checked; of ranges, both ends of each, as what lies
    between is not known yet. Raises ``SettingsError`` with the problems of all.
    """
    problems: dict[str, None] = {}
    first: Recipe | None = None
    for settings in _to_check(varied):
        try:
            recipe = recipe_of(assignments_of(settings))
        except SettingsError as error:
            problems.update(dict.fromkeys(error.problems))
            continue
        first = first or recipe
    if problems:
        raise SettingsError([*problems])
    assert first is not None, "there is at least one combination"
    return first


def _to_check(varied: Sequence[Varied]) -> Iterable[Settings]:
    lists = [each for each in varied if isinstance(each, Choices)]
    if len(lists) == len(varied):
        yield from combinations(lists)
        return
    first = {each.path: each.ends[0] for each in varied}
    yield first
    for each in varied:
        for value in each.ends[1:]:
            yield {**first, each.path: value}


def shared_settings(recipe: Recipe, paths: Iterable[str]) -> dict[str, Any]:
    """Return a recipe as a table without its seed, and without what is varied."""
    return _without(as_table(recipe), paths)


def with_later_settings(
    table: Mapping[str, Any], paths: Iterable[str]
) -> dict[str, Any]:
    """Return what an older version got from :func:`shared_settings` as this one does.

    Settings have the names of this version, and those that it has added their defaults.
    """
    named, _ = with_new_names(Recipe, table)
    defaults = resolve(extra={"task": named["task"]})
    return merged(_without(as_table(defaults), paths), named)


def _without(table: dict[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """Take the seed and these settings out of a table, and return it."""
    for path in ("seed", *paths):
        *outer, last = path.split(".")
        inner: Any = table
        for name in outer:
            inner = inner.get(name, {}) if isinstance(inner, dict) else {}
        if isinstance(inner, dict):
            inner.pop(last, None)
    return table
