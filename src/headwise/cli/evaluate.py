"""``headwise evaluate``: scores of a model on a test set, such as BLEU."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_environment,
    check_models,
    check_out_file,
    check_search,
)
from headwise.cli.options import (
    BackendName,
    Beam,
    Deterministic,
    Device,
    EngineName,
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
from headwise.cli.translate_and_score import read_parallel, translate_and_score
from headwise.errors import UsageError
from headwise.inference.engines.engine_names import check_engine, renamed_engine

DEFAULT_METRICS = ("bleu", "chrf", "ter")


def evaluate(
    folder: TrainedModel,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Text to translate, plain or .gz.")
    ],
    reference: Annotated[
        Path, typer.Argument(metavar="REFERENCE", help="Reference translation.")
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="bleu, chrf, ter, multi30k-bleu, exact-match, word-error-rate or "
            "token-error-rate. May be repeated. Default: bleu, chrf and ter.",
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
    out: Annotated[
        Path | None,
        typer.Option(help="File to write the translations to.", show_default=False),
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
    """Translate SOURCE and score it against REFERENCE.

    Each score is printed with its signature.

    \b
    headwise evaluate en-de test.en test.de
    headwise evaluate en-de test.en.gz test.de.gz --beam 5 --language de
    headwise evaluate en-de test.en test.de --precision int8
    headwise evaluate en-de test.en test.de --search no_repeat_ngram=3
    headwise evaluate g2p words.txt phones.txt --metric word-error-rate
    """
    from headwise.metrics.multi30k import LANGUAGES
    from headwise.metrics.registry import METRICS, NEED_LANGUAGE

    names = metrics or [*DEFAULT_METRICS, *(["multi30k-bleu"] if language else [])]
    for name in names:
        if name not in METRICS:
            known = ", ".join(METRICS)
            raise UsageError(f"--metric {name} is unknown; choose from {known}")
        if name in NEED_LANGUAGE and language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise UsageError(
                f"{name} needs --language, one of {known}, not {language!r}; for "
                "other languages use --metric bleu"
            )
    check_out_file("--out", out, inputs=[folder, source, reference])
    check_engine(engine, precision, backend)
    if message := renamed_engine(engine):
        say(message)
    check_device(device)
    check_environment()
    check_models(folder)
    table = parse_search(search)
    if beam is not None:
        table.setdefault("beam", beam)
    say_ignored_settings(table, check_search(folder, table))
    sources, references = read_parallel(source, reference)

    from headwise.inference.translator import load

    use_threads(threads)
    translator = load(
        folder,
        device=resolve_device(device),
        engine=engine,
        backend=backend,
        precision=precision,
        deterministic=deterministic,
    )
    scores, outputs = translate_and_score(
        translator, sources, references, names, language=language, **table
    )
    details = {"engine": "+".join(translator.engine.used), "precision": precision}
    if deterministic:
        details["deterministic"] = "yes"
    if table:
        details["search"] = ",".join(_assignments(table))
    if as_json:
        rows = [{**asdict(score), **details} for score in scores]
        output(json.dumps(rows, indent=2))
    else:
        signature = "|".join(
            f"{name}:{value}" for name, value in details.items() if value
        )
        for score in scores:
            output(f"{score}  {score.signature}  {signature}")
    say_engines(translator.engine.used, engine)
    if out is not None:
        write_out_file(out, "".join(f"{output}\n" for output in outputs))
        say(f"the translations are in {out}")


def _assignments(table: Mapping[str, Any], inside: str = "") -> Iterator[str]:
    """Yield a table of settings as NAME=VALUE."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _assignments(value, f"{inside}{name}.")
        else:
            written = value if isinstance(value, str) else json.dumps(value)
            yield f"{inside}{name}={written}"
