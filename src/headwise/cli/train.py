"""``headwise train``: a prepared corpus to a run folder with a model in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.options import (
    Assignments,
    Device,
    MaxTime,
    Preset,
    RecipeFile,
    Threads,
    chosen_device,
    minutes,
    say,
    to_folder,
    use_threads,
)
from headwise.errors import SettingsError
from headwise.recipe import Recipe, merged, preset_for, resolve
from headwise.settings import as_table, read_toml

if TYPE_CHECKING:
    from headwise.data.prepared import PreparedCorpus


def train(
    corpus: Annotated[
        Path, typer.Argument(metavar="CORPUS", help="A folder that prepare wrote.")
    ],
    out: Annotated[Path, to_folder("Run folder to write to, or to go on in.")],
    preset: Preset = None,
    recipe_file: RecipeFile = None,
    assignments: Assignments = None,
    max_time: MaxTime = None,
    threads: Threads = None,
    device: Device = "auto",
) -> None:
    """Train a model on a prepared corpus.

    A run folder that holds checkpoints is gone on with. The best model so far stands in
    OUT/best, and can be used while training goes on.

    \b
    headwise train corpus --out run --preset tiny --max-time 30m
    headwise train corpus --out run --preset base --set training.batch_tokens=4096
    """
    from headwise.cli.steps import trained
    from headwise.data.prepared import PreparedCorpus

    prepared = PreparedCorpus.open(corpus)
    recipe = _recipe_for(
        prepared,
        preset=preset,
        recipe_file=recipe_file,
        assignments=assignments or (),
        max_minutes=None if max_time is None else minutes(max_time),
    )
    use_threads(threads)
    trained(out, recipe, prepared, chosen_device(device))
    say(f"{out / 'best'}: the best model; next: headwise translate {out} < TEXT")


def _recipe_for(
    prepared: PreparedCorpus,
    *,
    preset: str | None,
    recipe_file: Path | None,
    assignments: Sequence[str],
    max_minutes: float | None,
) -> Recipe:
    """Put the recipe together; what the corpus was prepared with is settled."""
    made = prepared.fields["settings"]
    file = {} if recipe_file is None else read_toml(recipe_file)
    if preset is None and "preset" not in file:
        preset = preset_for(prepared.facts.train.pairs)
        say(f"{prepared.facts.train.pairs:,} pairs: preset {preset}")
    extra = {"data": made["data"], "text": merged(made["text"], file.get("text", {}))}
    if max_minutes is not None:
        extra["training"] = {"max_minutes": max_minutes}
    recipe = resolve(
        preset=preset, file=recipe_file, assignments=assignments, extra=extra
    )
    wanted = {"data": as_table(recipe.data), "text": as_table(recipe.text)}
    problems = [
        f"{part}.{name} = {wanted[part].get(name)!r} was asked for, but "
        f"{prepared.folder} was prepared with {made[part].get(name)!r}; leave it out, "
        "or prepare the text again"
        for part in wanted
        for name in {**wanted[part], **made[part]}
        if wanted[part].get(name) != made[part].get(name)
    ]
    if problems:
        raise SettingsError(problems)
    return recipe
