"""``headwise recipe``: print every setting of an experiment."""

from __future__ import annotations

from typing import Annotated

import typer

from headwise.cli.build_recipe import resolve_checked
from headwise.cli.options import Assignments, RecipeFile
from headwise.cli.standard_streams import output
from headwise.errors import UsageError
from headwise.model.presets import PRESETS
from headwise.settings import as_toml


def recipe(
    preset: Annotated[
        str | None,
        typer.Option(
            help="Named architecture and training settings; see --list. Default: that "
            "of the recipe file, or the paper's base model.",
            show_default=False,
        ),
    ] = None,
    recipe_file: RecipeFile = None,
    assignments: Assignments = None,
    names: Annotated[
        bool, typer.Option("--list", help="List the presets, and no recipe.")
    ] = False,
) -> None:
    """Check a recipe and print it with every default filled in.

    Without a preset, settings default to the paper's base model. headwise run and
    headwise train instead choose a preset by the kind and amount of data.

    \b
    headwise recipe --list
    headwise recipe --preset tiny > my.toml
    headwise recipe --recipe my.toml --set model.norm=pre
    """
    if names:
        if preset is not None or recipe_file is not None or assignments:
            raise UsageError(
                "--list prints all presets and no recipe; leave out --preset, --recipe "
                "and --set, or leave out --list to print that recipe"
            )
        width = max(map(len, PRESETS))
        for name, each in PRESETS.items():
            output(f"{name:<{width}} {each.about}")
        return
    resolved = resolve_checked(
        preset=preset, file=recipe_file, assignments=assignments or ()
    )
    output(as_toml(resolved), end="")
