"""``headwise run``: everything, from two text files to a measured translator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.batch_size import batch_tokens_of, fitted, is_to_be_fitted
from headwise.cli.checks import check_device, check_files, check_kernels
from headwise.cli.common import (
    measured,
    prepared,
    read_aligned,
    recipe_for,
    say_unknown,
    trained,
)
from headwise.cli.options import (
    Assignments,
    BatchTokens,
    Dev,
    Device,
    Languages,
    MaxTime,
    Preset,
    RecipeFile,
    Threads,
    chosen_device,
    minutes,
    refuse_several_processes,
    say,
    to_folder,
    use_threads,
)
from headwise.cli.streams import output
from headwise.run_folder.claim import check_claimable
from headwise.wording import count_of


def run(
    out: Annotated[Path, to_folder("Folder for all that is made.")],
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="SOURCE",
            help="Source text, or a TSV or JSON Lines file with both sides.",
        ),
    ] = None,
    target: Annotated[
        Path | None, typer.Argument(metavar="TARGET", help="Target text.")
    ] = None,
    dev: Dev = None,
    languages: Languages = None,
    test: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="SOURCE REFERENCE",
            help="Text for the final score. Not given: the held-out text.",
            show_default=False,
        ),
    ] = None,
    preset: Preset = None,
    recipe_file: RecipeFile = None,
    assignments: Assignments = None,
    batch_tokens: BatchTokens = None,
    max_time: MaxTime = None,
    threads: Threads = None,
    device: Device = "auto",
) -> None:
    """Do everything: prepare the text, train a model, measure it.

    Line N of SOURCE and of TARGET say the same. Sizes are chosen by the amount of text
    unless they are given. A run that was interrupted goes on when the same command is
    typed again; a step whose text and settings have not changed is not done twice.

    \b
    headwise run train.en train.de --out en-de
    headwise run train.en train.de --out en-de --preset tiny --max-time 30m
    headwise run pairs.jsonl --languages en de --out en-de
    headwise run pairs.tsv --out en-fr --dev dev.en dev.fr --test test.en test.fr
    headwise run --recipe my.toml --out en-cs --set training.steps=60
    """
    refuse_several_processes("run")
    check_files(*(test or ()))
    check_device(device)
    check_kernels()
    check_claimable(out)
    recipe = recipe_for(
        source,
        target,
        dev=dev,
        languages=languages,
        preset=preset,
        recipe_file=recipe_file,
        assignments=assignments or (),
        max_minutes=None if max_time is None else minutes(max_time),
        also=batch_tokens_of(batch_tokens, assignments or (), out),
    )
    texts = None if test is None else read_aligned(*test)
    corpus = prepared(out, recipe)
    use_threads(threads)
    device = chosen_device(device)
    if is_to_be_fitted(batch_tokens, out):
        recipe = fitted(recipe, corpus, device)
    trained(out, recipe, corpus, device)

    from headwise.inference.translator import load

    sources, references = texts or corpus.dev_text
    kind = "test line" if test else "held-out line"
    say(f"translating {count_of(len(sources), kind)}")
    names = ["bleu", "chrf"]
    if recipe.training.measure not in ("loss", *names):
        names.append(recipe.training.measure)
    scores, _ = measured(load(out, device=device), sources, references, names)
    for score in scores:
        output(f"{score}  {score.signature}")
    say_unknown(out)
    say(f"the model is {out / 'best'}; next: headwise translate {out} < TEXT")
