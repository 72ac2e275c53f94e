"""``headwise train``: a prepared corpus to a run folder with a model in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    use_threads,
)


def train(
    corpus: Annotated[Path, typer.Argument(help="A folder that prepare wrote.")],
    out: Annotated[Path, typer.Option(help="Run folder to write to, or to go on in.")],
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
    from headwise.recipe import preset_for, resolve
    from headwise.settings import read_toml

    prepared = PreparedCorpus.open(corpus)
    named = preset or (recipe_file and read_toml(recipe_file).get("preset"))
    if not named:
        preset = preset_for(prepared.facts.train.pairs)
        say(f"{prepared.facts.train.pairs:,} pairs: preset {preset}")
    extra = dict(prepared.fields["settings"])
    if max_time is not None:
        extra["training"] = {"max_minutes": minutes(max_time)}
    recipe = resolve(
        preset=preset, file=recipe_file, assignments=assignments or (), extra=extra
    )
    use_threads(threads)
    trained(out, recipe, prepared, chosen_device(device))
    say(f"{out / 'best'}: the best model; next: headwise translate {out} < TEXT")
