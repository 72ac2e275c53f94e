"""``headwise recipe``: what an experiment would be, before it is one."""

from __future__ import annotations

from typing import Annotated

import typer

from headwise.cli.options import Assignments, RecipeFile
from headwise.cli.recipe_args import resolved
from headwise.cli.streams import output
from headwise.model.presets import PRESETS
from headwise.settings import as_toml


def recipe(
    preset: Annotated[
        str | None,
        typer.Option(
            help="Architecture and training by name; --list shows the presets. Not "
            "given: that of the recipe file, or the paper's base model.",
            show_default=False,
        ),
    ] = None,
    recipe_file: RecipeFile = None,
    assignments: Assignments = None,
    names: Annotated[
        bool, typer.Option("--list", help="List the presets instead.")
    ] = False,
) -> None:
    """Print a recipe with every default spelled out, checked.

    Where neither --preset nor the recipe file names a preset, what they leave open is
    as the paper's base model has it; headwise run and train, which know the amount of
    data, choose a preset by that.

    \b
    headwise recipe --list
    headwise recipe --preset tiny > my.toml
    headwise recipe --recipe my.toml --set model.norm=pre
    """
    if names:
        for name, each in PRESETS.items():
            output(f"{name:<10} {each.about}")
        return
    settled = resolved(preset=preset, file=recipe_file, assignments=assignments or ())
    output(as_toml(settled), end="")
