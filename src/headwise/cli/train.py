"""``headwise train``: a prepared corpus to a run folder with a model in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.batch_size import batch_tokens_of, fitted, is_to_be_fitted
from headwise.cli.checks import (
    check_device,
    check_files,
    check_folders,
    check_kernels,
    check_set,
)
from headwise.cli.options import (
    Assignments,
    BatchTokens,
    Device,
    MaxTime,
    Preset,
    RecipeFile,
    Threads,
    chosen_device,
    minutes,
    named,
    refuse_several_processes,
    say,
    to_folder,
    use_threads,
)
from headwise.cli.recipe_args import resolved
from headwise.errors import SettingsError, UsageError
from headwise.recipe import Recipe, preset_for
from headwise.run_folder.claim import check_claimable
from headwise.settings import as_table, merged, read_toml
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.data.prepared import PreparedCorpus


def train(
    corpus: Annotated[
        Path,
        typer.Argument(
            metavar="CORPUS", help="A folder that prepare wrote.", parser=named
        ),
    ],
    out: Annotated[Path, to_folder("Run folder to write to, or to go on in.")],
    preset: Preset = None,
    recipe_file: RecipeFile = None,
    assignments: Assignments = None,
    batch_tokens: BatchTokens = None,
    max_time: MaxTime = None,
    until: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="STEP",
            help="Stop after this update for now; may be raised later.",
            show_default=False,
        ),
    ] = None,
    threads: Threads = None,
    device: Device = "auto",
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Write nothing: print size, memory, time and what was left out.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --dry-run, print it as JSON.")
    ] = False,
) -> None:
    """Train a model on a prepared corpus.

    A run folder that holds checkpoints is gone on with. The best model so far stands in
    OUT/best, and can be used while training goes on.

    \b
    headwise train corpus --out run --preset tiny --max-time 30m
    headwise train corpus --out run --preset base --batch-tokens auto
    headwise train corpus --out run --preset base --dry-run
    """
    from headwise.cli.common import say_unknown, trained
    from headwise.cli.dry_run import show
    from headwise.data.prepared import PreparedCorpus

    check_folders(corpus)
    check_files(recipe_file)
    check_set(assignments)
    check_device(device)
    check_kernels()
    check_claimable(out)
    if as_json and not dry_run:
        raise UsageError("--json has a meaning only with --dry-run; add that")
    if dry_run:
        refuse_several_processes("train --dry-run")
    prepared = PreparedCorpus.open(corpus)
    recipe = _recipe_for(
        prepared,
        preset=preset,
        recipe_file=recipe_file,
        assignments=assignments or (),
        max_minutes=None if max_time is None else minutes(max_time),
        also=batch_tokens_of(batch_tokens, assignments or (), out),
    )
    use_threads(threads)
    device = chosen_device(device)
    if is_to_be_fitted(batch_tokens, out):
        recipe = fitted(recipe, prepared, device)
    if dry_run:
        show(out, recipe, prepared, device, as_json=as_json, until=until)
        return
    trained(out, recipe, prepared, device, until=until)
    say_unknown(out)
    say(f"{out / 'best'}: the best model; next: headwise translate {out} < TEXT")


def _recipe_for(
    prepared: PreparedCorpus,
    *,
    preset: str | None,
    recipe_file: Path | None,
    assignments: Sequence[str],
    max_minutes: float | None,
    also: Mapping[str, Any],
) -> Recipe:
    """Put the recipe together; what the corpus was prepared with is settled."""
    made = prepared.fields["settings"]
    file = {} if recipe_file is None else read_toml(recipe_file)
    if preset is None and "preset" not in file:
        preset = preset_for(prepared.facts.train.pairs)
        say(f"{count_of(prepared.facts.train.pairs, 'pair')}: preset {preset}")
    text = merged(made["text"], file.get("text", {}))
    extra = merged({"data": made["data"], "text": text}, also)
    if max_minutes is not None:
        extra = merged(extra, {"training": {"max_minutes": max_minutes}})
    recipe = resolved(
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
