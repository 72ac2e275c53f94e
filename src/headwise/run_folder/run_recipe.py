"""The recipe that a run was started with, as it stands in its folder."""

from __future__ import annotations

from pathlib import Path

from headwise.errors import ModelError, SettingsError
from headwise.recipe import Recipe
from headwise.settings import read, read_toml

ANOTHER_FOLDER = "choose another folder"
"""What else would work for a command that was about to go on with the run."""


def read_run_recipe(path: Path, *, remedy: str = ANOTHER_FOLDER) -> Recipe:
    """Read ``recipe.toml`` of a run; raise ``ModelError`` if it is not one.

    ``remedy`` is what would work besides restoring the file.
    """
    try:
        return read(Recipe, read_toml(path))
    except SettingsError as error:
        raise ModelError(
            f"{path} is not the recipe of this run; restore it, or {remedy}:\n{error}"
        ) from None
