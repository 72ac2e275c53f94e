"""``headwise run``: prepare, train and evaluate in one command."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_dry_run_json,
    check_environment,
    check_files,
    check_two_files,
)
from headwise.cli.batch_size import (
    batch_tokens_setting,
    fit_batch_size,
    must_fit_batch_size,
)
from headwise.cli.build_recipe import recipe_from_options
from headwise.cli.corpus_tables import check_columns, check_fields
from headwise.cli.options import (
    Assignments,
    BatchTokens,
    Columns,
    Dev,
    DevFile,
    Device,
    DryRunJson,
    Fields,
    InitializeFrom,
    Languages,
    MaxTime,
    Preset,
    RecipeFile,
    TaskName,
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
    say_next_steps,
    train_model,
)
from headwise.cli.print_dry_run import print_dry_run
from headwise.cli.standard_streams import output
from headwise.cli.translate_and_score import (
    check_references,
    predict_and_score,
    read_parallel,
    translate_and_score,
)
from headwise.data.pair_formats import DOCUMENTS
from headwise.errors import UsageError
from headwise.run_folder.overwrite_protection import check_no_foreign_files
from headwise.tasks import TASKS
from headwise.wording import count_of


def run(
    out: Annotated[Path, output_folder("Run folder: output, and where to resume.")],
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="SOURCE",
            help="Source text, or a TSV or JSON Lines file with source and target; of "
            "pictures a folder with a sub-folder for each label, a list, or .npz. "
            "Replaces the corpora of --recipe.",
        ),
    ] = None,
    target: Annotated[
        Path | None, typer.Argument(metavar="TARGET", help="Target text.")
    ] = None,
    task: TaskName = None,
    initialize_from: InitializeFrom = None,
    dev: Dev = None,
    dev_file: DevFile = None,
    columns: Columns = None,
    fields: Fields = None,
    languages: Languages = None,
    test: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="SOURCE REFERENCE",
            help="Test set for the final score. Default: the validation set.",
            show_default=False,
        ),
    ] = None,
    test_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Test set in one file: TSV, JSON Lines or a treebank.",
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
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Prepare the text, but do not train: print model size, memory and "
            "time.",
        ),
    ] = False,
    as_json: DryRunJson = False,
) -> None:
    """Prepare the text, train a model, and evaluate it.

    Line N of TARGET is the translation of line N of SOURCE. Without --preset or a
    recipe, sizes are chosen by the kind and amount of text. The same command resumes an
    interrupted run; steps that are done are not repeated.

    \b
    headwise run train.en train.de --out en-de
    headwise run train.en train.de --out en-de --preset tiny --max-time 30m
    headwise run pairs.jsonl --languages en de --out en-de
    headwise run reviews.tsv --task classification --out sentiment
    headwise run my.jsonl --fields text label --task classification --out sentiment
    headwise run reviews.tsv --task classification --from bert --out sentiment
    headwise run train.mrg --task parsing --out parser
    headwise run digits.npz --task picture_classification --out digits
    headwise run pairs.tsv --out en-fr --dev dev.en dev.fr --test test.en test.fr
    headwise run --recipe my.toml --out en-cs --set training.steps=60
    headwise run train.en train.de --out en-de --dry-run
    """
    require_single_process("run")
    check_dry_run_json(as_json, dry_run)
    check_files(*(test or ()))
    if test is not None and test_file is not None:
        raise UsageError("--test and --test-file both name the test set; give one")
    if test is not None:
        check_two_files(*test, remedy="name it by --test-file")
    check_columns(columns, None if target else source, dev_file, test_file)
    check_fields(fields, None if target else source, dev_file, test_file)
    check_device(device)
    check_environment()
    check_no_foreign_files(out)
    recipe = recipe_from_options(
        source,
        target,
        task=task,
        dev=dev,
        dev_file=dev_file,
        columns=columns,
        fields=fields,
        languages=languages,
        preset=preset,
        recipe_file=recipe_file,
        assignments=assignments or (),
        max_minutes=None if max_time is None else parse_minutes(max_time),
        initialize_from=initialize_from or (),
        out=out,
        also=batch_tokens_setting(batch_tokens, assignments or (), out),
    )
    if TASKS[recipe.task].pair_format is DOCUMENTS and (test or test_file):
        raise UsageError(
            "a language model is tested by the perplexity of a text: leave out --test "
            f"and --test-file, and run `headwise evaluate {quote(str(out))} FILE` "
            "after the training"
        )
    texts = None if test is None else read_parallel(*test, task=recipe.task)
    if test_file is not None:
        texts = read_parallel(
            test_file,
            None,
            columns=columns,
            fields=fields,
            languages=languages,
            task=recipe.task,
            remedy="give two files (--test SOURCE REFERENCE)",
        )
    corpus = prepare_corpus(out, recipe)
    if texts is not None and recipe.task != "translation":
        place = test_file if test is None else test[1]
        assert place is not None
        check_references(corpus.tokenizers, recipe.task, *texts, place)
    use_threads(threads)
    device = resolve_device(device)
    if must_fit_batch_size(batch_tokens, out):
        recipe = fit_batch_size(recipe, corpus, device)
    if dry_run:
        print_dry_run(out, recipe, corpus, device, as_json=as_json)
        say("nothing was trained; the same command without --dry-run does it")
        return
    train_model(out, recipe, corpus, device)

    if TASKS[recipe.task].pair_format is DOCUMENTS:
        say_next_steps(out, recipe)
        return
    sources, references = texts or corpus.dev_text
    kind = "validation line" if texts is None else "test line"
    translates = recipe.task == "translation"
    done = "translating" if translates else "predicting"
    say(f"{done} {count_of(len(sources), kind)}")
    names = list(TASKS[recipe.task].final_measures)
    if recipe.training.measure not in ("loss", *names):
        names.append(recipe.training.measure)
    if translates:
        from headwise.inference.translator import load

        translator = load(out, device=device)
        scores, _ = translate_and_score(translator, sources, references, names)
    else:
        from headwise.inference.load import load_predictor

        predictor = load_predictor(out, device=device)
        scores, _ = predict_and_score(predictor, sources, references, names)
    for score in scores:
        output(f"{score}  {score.signature}")
    say_next_steps(out, recipe)
