"""``headwise run``: prepare, train and evaluate in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.argument_checks import check_device, check_environment, check_files
from headwise.cli.batch_size import (
    batch_tokens_setting,
    fit_batch_size,
    must_fit_batch_size,
)
from headwise.cli.build_recipe import recipe_from_options
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
    output_folder,
    parse_minutes,
    require_single_process,
    resolve_device,
    say,
    use_threads,
)
from headwise.cli.prepare_and_train import (
    prepare_corpus,
    say_missing_card_fields,
    train_model,
)
from headwise.cli.standard_streams import output
from headwise.cli.translate_and_score import read_parallel, translate_and_score
from headwise.run_folder.overwrite_protection import check_no_foreign_files
from headwise.wording import count_of


def run(
    out: Annotated[Path, output_folder("Run folder: output, and where to resume.")],
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="SOURCE",
            help="Source text, or a TSV or JSON Lines file with source and target.",
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
            help="Test set for the final score. Default: the validation set.",
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
    """Prepare the text, train a model, and evaluate it.

    Line N of TARGET is the translation of line N of SOURCE. Without --preset or a
    recipe, sizes are chosen by the amount of text. The same command resumes an
    interrupted run; steps that are done are not repeated.

    \b
    headwise run train.en train.de --out en-de
    headwise run train.en train.de --out en-de --preset tiny --max-time 30m
    headwise run pairs.jsonl --languages en de --out en-de
    headwise run pairs.tsv --out en-fr --dev dev.en dev.fr --test test.en test.fr
    headwise run --recipe my.toml --out en-cs --set training.steps=60
    """
    require_single_process("run")
    check_files(*(test or ()))
    check_device(device)
    check_environment()
    check_no_foreign_files(out)
    recipe = recipe_from_options(
        source,
        target,
        dev=dev,
        languages=languages,
        preset=preset,
        recipe_file=recipe_file,
        assignments=assignments or (),
        max_minutes=None if max_time is None else parse_minutes(max_time),
        also=batch_tokens_setting(batch_tokens, assignments or (), out),
    )
    texts = None if test is None else read_parallel(*test)
    corpus = prepare_corpus(out, recipe)
    use_threads(threads)
    device = resolve_device(device)
    if must_fit_batch_size(batch_tokens, out):
        recipe = fit_batch_size(recipe, corpus, device)
    train_model(out, recipe, corpus, device)

    from headwise.inference.translator import load

    sources, references = texts or corpus.dev_text
    kind = "test line" if test else "validation line"
    say(f"translating {count_of(len(sources), kind)}")
    names = ["bleu", "chrf"]
    if recipe.training.measure not in ("loss", *names):
        names.append(recipe.training.measure)
    scores, _ = translate_and_score(
        load(out, device=device), sources, references, names
    )
    for score in scores:
        output(f"{score}  {score.signature}")
    say_missing_card_fields(out)
    say(f"the best model is {out / 'best'}; next: headwise translate {out} < TEXT")
