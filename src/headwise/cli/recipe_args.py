"""Build the recipe of a command, and check that it can be exported as it asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headwise.cli.checks import check_files, check_set
from headwise.cli.options import say
from headwise.errors import SettingsError
from headwise.interop.unsupported_models import reasons_against
from headwise.recipe import Recipe, renamed_settings, resolve


def resolve_checked(
    *,
    preset: str | None = None,
    file: Path | None = None,
    assignments: Iterable[str] = (),
    extra: Mapping[str, Any] | None = None,
) -> Recipe:
    """Build a recipe; raise ``SettingsError`` if it cannot be exported as it asks.

    ``must_export_to`` is checked here, as a recipe knows nothing of export formats.
    """
    check_files(file)
    assignments = tuple(assignments)
    check_set(assignments)
    for message in renamed_settings(file, assignments):
        say(message)
    recipe = resolve(preset=preset, file=file, assignments=assignments, extra=extra)
    reasons = reasons_against(recipe.must_export_to, recipe.model, recipe.text)
    if reasons:
        raise SettingsError([f"must_export_to: {each}" for each in reasons])
    return recipe
