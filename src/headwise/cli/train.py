"""``headwise train``: train a model on a prepared corpus, in a run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_dry_run_json,
    check_environment,
    check_files,
    check_folders,
    check_set,
)
from headwise.cli.batch_size import (
    batch_tokens_setting,
    fit_batch_size,
    must_fit_batch_size,
)
from headwise.cli.build_recipe import check_task, resolve_checked
from headwise.cli.options import (
    Assignments,
    BatchTokens,
    Device,
    DryRunJson,
    InitializeFrom,
    MaxTime,
    Preset,
    RecipeFile,
    TaskName,
    Threads,
    output_folder,
    parse_minutes,
    parse_path,
    require_single_process,
    resolve_device,
    say,
    use_threads,
)
from headwise.errors import SettingsError, UsageError
from headwise.recipe import Recipe
from headwise.recipe.maxima import MAXIMUM
from headwise.recipe.preset_training import preset_for, words_of
from headwise.run_folder.overwrite_protection import check_no_foreign_files
from headwise.settings import as_table, merged, read_toml
from headwise.tasks import TASKS, task_of_format
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.data.prepared import PreparedCorpus


def train(
    corpus: Annotated[
        Path,
        typer.Argument(
            metavar="CORPUS",
            help="Folder written by headwise prepare.",
            parser=parse_path,
        ),
    ],
    out: Annotated[Path, output_folder("Run folder, new or to resume.")],
    task: TaskName = None,
    initialize_from: InitializeFrom = None,
    preset: Preset = None,
    recipe_file: RecipeFile = None,
    assignments: Assignments = None,
    batch_tokens: BatchTokens = None,
    max_time: MaxTime = None,
    until: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAXIMUM,
            metavar="STEP",
            help="Stop after this update; resume later with a larger one.",
            show_default=False,
        ),
    ] = None,
    threads: Threads = None,
    device: Device = "auto",
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Write nothing: print model size, memory, time and dropped pairs.",
        ),
    ] = False,
    as_json: DryRunJson = False,
) -> None:
    """Train a model on a prepared corpus.

    A run folder with checkpoints is resumed. The best model so far is in OUT/best, and
    can be used during training.

    \b
    headwise train corpus --out run --preset tiny --max-time 30m
    headwise train corpus --out run --preset base --batch-tokens auto
    headwise train corpus --out run --preset base --dry-run
    """
    from headwise.cli.prepare_and_train import say_next_steps, train_model
    from headwise.cli.print_dry_run import print_dry_run
    from headwise.data.prepared import PreparedCorpus

    if corpus.is_file():
        raise UsageError(
            f"{corpus} is a file, and train takes the folder of a prepared corpus: "
            "headwise prepare makes one, and headwise run prepares and trains"
        )
    check_folders(corpus)
    check_files(recipe_file)
    check_task(task)
    check_set(assignments)
    check_device(device)
    check_environment()
    check_no_foreign_files(out)
    check_dry_run_json(as_json, dry_run)
    if dry_run:
        require_single_process("train --dry-run")
    prepared = PreparedCorpus.open(corpus)
    recipe = _recipe_for(
        prepared,
        task=task,
        preset=preset,
        recipe_file=recipe_file,
        assignments=assignments or (),
        max_minutes=None if max_time is None else parse_minutes(max_time),
        initialize_from=initialize_from or (),
        out=out,
        also=batch_tokens_setting(batch_tokens, assignments or (), out),
    )
    use_threads(threads)
    device = resolve_device(device)
    if must_fit_batch_size(batch_tokens, out):
        recipe = fit_batch_size(recipe, prepared, device)
    if dry_run:
        print_dry_run(out, recipe, prepared, device, as_json=as_json, until=until)
        return
    train_model(out, recipe, prepared, device, until=until)
    say_next_steps(out, recipe)


def _recipe_for(
    prepared: PreparedCorpus,
    *,
    task: str | None,
    preset: str | None,
    recipe_file: Path | None,
    assignments: Sequence[str],
    max_minutes: float | None,
    initialize_from: Sequence[Path],
    out: Path,
    also: Mapping[str, Any],
) -> Recipe:
    """Build the recipe; data and text settings are those of the prepared corpus.

    So are the languages, unless the recipe file has others.
    """
    made = prepared.fields["settings"]
    file = {} if recipe_file is None else read_toml(recipe_file)
    if task is None and "task" not in file:
        task = task_of_format(prepared.facts.pair_format)
    if preset is None and "preset" not in file:
        named = task or str(file["task"])
        texts = prepared.facts.train.texts
        preset = preset_for(texts, named, words_of(made["text"]))
        noun = TASKS[named].pair_format.example_noun
        say(f"{count_of(texts, noun)}: preset {preset}")
    text = merged(made["text"], file.get("text", {}))
    extra = merged({"data": made["data"], "text": text}, also)
    if task is not None:
        extra["task"] = task
    if (size := made.get("patch_size")) is not None:
        named = task or file["task"]
        extra = merged(extra, {named: {"patch_size": size}})
    if "languages" in made and "languages" not in file:
        extra["languages"] = made["languages"]
    if max_minutes is not None:
        extra = merged(extra, {"training": {"max_minutes": max_minutes}})
    if initialize_from:
        extra["initialize_from"] = [str(each) for each in initialize_from]
    recipe = resolve_checked(
        preset=preset, file=file, assignments=assignments, extra=extra, out=out
    )
    wanted = {"data": as_table(recipe.data), "text": as_table(recipe.text)}
    problems = [
        f"{part}.{name} is {wanted[part].get(name)!r} here, but {prepared.folder} was "
        f"prepared with {made[part].get(name)!r}; leave it out, or prepare the text "
        "again"
        for part in wanted
        for name in {**wanted[part], **made[part]}
        if wanted[part].get(name) != made[part].get(name)
    ]
    if problems:
        raise SettingsError(problems)
    return recipe
