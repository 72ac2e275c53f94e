"""``headwise evaluate``: scores of a model on a test set, such as BLEU."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_environment,
    check_models,
    check_out_file,
    check_search,
    check_two_files,
)
from headwise.cli.bracket_table import print_bracket_table
from headwise.cli.corpus_tables import check_columns, check_fields
from headwise.cli.options import (
    BackendName,
    Beam,
    Columns,
    Deterministic,
    Device,
    EngineName,
    Fields,
    Precision,
    SearchSettings,
    Threads,
    TrainedModel,
    parse_search,
    resolve_device,
    say,
    say_engines,
    say_ignored_settings,
    use_threads,
)
from headwise.cli.out_files import write_out_file
from headwise.cli.standard_streams import output
from headwise.cli.text_perplexity import print_perplexity
from headwise.cli.translate_and_score import (
    check_references,
    keys_of_card,
    predict_and_score,
    read_parallel,
    translate_and_score,
)
from headwise.data.pair_formats import DOCUMENTS
from headwise.errors import UsageError
from headwise.inference.engines.engine_names import check_engine, renamed_engine
from headwise.recipe.preset_training import words_of
from headwise.run_folder.paths import model_path, task_of_folder
from headwise.settings import as_table
from headwise.tasks import TASKS

if TYPE_CHECKING:
    from headwise.inference.translator import Translator
    from headwise.metrics.score import Score

DEFAULT_METRICS = ("bleu", "chrf", "ter")


def evaluate(
    folder: TrainedModel,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Source text, or a TSV or JSON Lines file with source and reference, "
            "or a treebank; plain or .gz.",
        ),
    ],
    reference: Annotated[
        Path | None,
        typer.Argument(metavar="REFERENCE", help="Reference: translation, label, ..."),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="bleu, chrf, ter, multi30k-bleu, exact-match, word-error-rate, "
            "token-error-rate, accuracy, macro-f1, tag-accuracy, rmse, pearson, "
            "bracket-f1 or complete-match. May be repeated. "
            "Default: those of the task; of parsing, a table.",
            show_default=False,
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            help="Language of the references, such as de: adds multi30k-bleu, the "
            "lower-cased, tokenised BLEU of the Multi30k papers.",
            show_default=False,
        ),
    ] = None,
    columns: Columns = None,
    fields: Fields = None,
    stride: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Of a language model: tokens by which its window moves on. 1: each "
            "token is predicted from a whole window.",
            show_default="half of the window",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write the outputs to.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    beam: Beam = None,
    search: SearchSettings = None,
    engine: EngineName = "auto",
    backend: BackendName = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    device: Device = "auto",
    deterministic: Deterministic = False,
) -> None:
    """Compute the outputs for SOURCE and score them against REFERENCE.

    Each score is printed with its signature.

    \b
    headwise evaluate en-de test.en test.de
    headwise evaluate en-de test.en.gz test.de.gz --beam 5 --language de
    headwise evaluate en-de test.en test.de --precision int8
    headwise evaluate en-de test.en test.de --search no_repeat_ngram=3
    headwise evaluate sentiment test.tsv
    headwise evaluate sentiment test.jsonl --fields text label
    headwise evaluate digits test.npz
    headwise evaluate parser test.mrg.gz
    headwise evaluate shakespeare text.txt --stride 1
    headwise evaluate g2p words.txt phones.txt --metric word-error-rate
    """
    _check_metrics(metrics, language)
    check_out_file("--out", out, inputs=[folder, source, reference])
    check_engine(engine, precision, backend)
    if message := renamed_engine(engine):
        say(message)
    check_device(device)
    check_environment()
    check_models(folder)
    task = task_of_folder(model_path(folder))
    table = parse_search(search)
    if beam is not None:
        table.setdefault("beam", beam)
    if task != "translation":
        _refuse_for(
            task,
            *(("engine", engine), ("backend", backend)),
            *(("precision", precision), ("language", language)),
        )
    _check_search(folder, task, table)
    if stride is not None and task != "language_model":
        raise UsageError(
            f"--stride is for language models, and this is one of {task}; leave it out"
        )
    if TASKS[task].pair_format is DOCUMENTS:
        if any((reference, metrics, out, columns, fields)):
            raise UsageError(
                "a language model is evaluated on one text, by its perplexity: leave "
                "out REFERENCE, --metric, --out, --columns and --fields"
            )
        use_threads(threads)
        print_perplexity(
            folder,
            source,
            device=resolve_device(device),
            stride=stride,
            as_json=as_json,
        )
        return
    check_two_files(source, reference)
    check_columns(columns, None if reference else source)
    check_fields(fields, None if reference else source)
    languages = None
    if task == "translation" and reference is None and fields is None:
        languages = keys_of_card(folder, source)
    texts = read_parallel(
        source,
        reference,
        columns=columns,
        fields=fields,
        languages=languages,
        task=task,
    )
    use_threads(threads)
    device = resolve_device(device)
    details = {"deterministic": "yes"} if deterministic else {}
    if table:
        details["search"] = ",".join(_assignments(table))
    if task == "translation":
        from headwise.inference.translator import load

        translator = load(
            folder,
            device=device,
            engine=engine,
            backend=backend,
            precision=precision,
            deterministic=deterministic,
        )
        scores, outputs = _score_translator(
            translator, *texts, metrics, language=language, search=table
        )
        details = {
            "engine": "+".join(translator.engine.used),
            "precision": precision,
            **details,
        }
        _print_scores(scores, details, as_json)
        say_engines(translator.engine.used, engine)
    else:
        from headwise.inference.load import load_predictor

        predictor = load_predictor(folder, device=device, deterministic=deterministic)
        tokenizers = predictor.opened.tokenizers
        check_references(tokenizers, task, *texts, reference or source)
        if table:
            predictor = predictor.with_search(table)
        if task == "parsing" and not metrics:
            outputs = predictor.predict(texts[0])
            print_bracket_table(outputs, texts[1], as_json=as_json)
        else:
            names = metrics or TASKS[task].measures
            scores, outputs = predict_and_score(predictor, *texts, names)
            _print_scores(scores, details, as_json)
    _write_outputs(out, outputs)


def _check_metrics(metrics: Sequence[str] | None, language: str | None) -> None:
    """Raise ``UsageError`` for a metric that there is not, or that needs a language."""
    from headwise.metrics.multi30k import LANGUAGES
    from headwise.metrics.registry import METRICS, NEED_LANGUAGE

    for name in [*(metrics or []), *(["multi30k-bleu"] if language else [])]:
        if name not in METRICS:
            known = ", ".join(METRICS)
            raise UsageError(f"--metric {name} is unknown; choose from {known}")
        if name in NEED_LANGUAGE and language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise UsageError(
                f"{name} needs --language, one of {known}, not {language!r}; for "
                "other languages use --metric bleu"
            )


def _check_search(folder: Path, task: str, table: dict[str, Any]) -> None:
    """Raise for decoding settings that are refused; name those without effect."""
    spec = TASKS[task]
    if spec.searches and spec.pair_format is not DOCUMENTS:
        say_ignored_settings(table, check_search(folder, table))
    elif table:
        raise UsageError(
            "--beam and --search are for outputs that are searched for, and evaluate "
            f"searches for none of a model of {task}; leave them out"
        )


def _score_translator(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] | None,
    *,
    language: str | None,
    search: Mapping[str, Any],
) -> tuple[list[Score], list[str]]:
    """Return the score of each metric, by default those of the kind of text.

    The translations are returned too.
    """
    if not metrics:
        metrics = [*DEFAULT_METRICS, *(["multi30k-bleu"] if language else [])]
        if words_of(as_table(translator.opened.tokenizers.settings)):
            metrics = ["word-error-rate", *metrics]
    return translate_and_score(
        translator, sources, references, metrics, language=language, **search
    )


def _print_scores(
    scores: Sequence[Score], details: Mapping[str, str], as_json: bool
) -> None:
    if as_json:
        rows = [{**asdict(score), **details} for score in scores]
        output(json.dumps(rows, indent=2))
        return
    signature = "|".join(f"{name}:{value}" for name, value in details.items() if value)
    for score in scores:
        output(f"{score}  {score.signature}  {signature}".rstrip())


def _write_outputs(out: Path | None, outputs: Sequence[str]) -> None:
    if out is not None:
        write_out_file(out, "".join(f"{output}\n" for output in outputs))
        say(f"the outputs are in {out}")


def _refuse_for(task: str, *given: tuple[str, object]) -> None:
    """Raise ``UsageError`` for options of translation that were given."""
    usual = {"engine": "auto", "backend": "auto", "precision": "float32"}
    for name, value in given:
        if value != usual.get(name):
            raise UsageError(
                f"--{name} is for translation, and this is a model of {task}; leave it "
                "out"
            )


def _assignments(table: Mapping[str, Any], inside: str = "") -> Iterator[str]:
    """Yield a table of settings as NAME=VALUE."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _assignments(value, f"{inside}{name}.")
        else:
            written = value if isinstance(value, str) else json.dumps(value)
            yield f"{inside}{name}={written}"
