"""``headwise translate``: text in, text out, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.checks import (
    check_device,
    check_files,
    check_input,
    check_kernels,
    check_models,
    check_out_file,
    check_prefixes,
    check_search,
)
from headwise.cli.options import (
    Beam,
    Deterministic,
    Device,
    EngineName,
    Ensemble,
    Precision,
    SearchSettings,
    Threads,
    TrainedModel,
    chosen_device,
    say,
    say_engines,
    say_without_effect,
    search_table,
    use_threads,
)
from headwise.cli.out_files import write_out_file
from headwise.cli.streams import flush_output, output
from headwise.cli.text_lines import InputLines, is_terminal, lines_of
from headwise.inference.engines.settings import WITHOUT_TORCH, check_engine

if TYPE_CHECKING:
    from headwise.inference.translator import Candidate, Translated


def translate(
    folder: TrainedModel,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE", help="Texts, plain or .gz; none, or -: standard input."
        ),
    ] = None,
    beam: Beam = None,
    num_best: Annotated[
        int | None,
        typer.Option(
            "--n-best",
            min=1,
            help="Print so many outputs a line (as JSON, with scores).",
        ),
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Print JSON lines with scores.")
    ] = False,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Search as the paper did (Section 6.1)."),
    ] = False,
    search: SearchSettings = None,
    prefix_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What each translation begins with, line by line.",
            show_default=False,
        ),
    ] = None,
    alignments: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write there which source word each word comes from: 0-0 1-2.",
            show_default=False,
        ),
    ] = None,
    ensemble: Ensemble = None,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive",
            help="Answer each line before the next one is read.",
            show_default="so where standard input is a terminal",
        ),
    ] = False,
    engine: EngineName = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    device: Device = "auto",
    deterministic: Deterministic = False,
) -> None:
    """Translate text; N lines in, N lines out.

    A blank line gives a blank line. A line that is longer than the model was trained
    for is split, translated and rejoined, with a warning. Bytes that are not UTF-8 are
    replaced, with a warning. Only translations go to standard output.

    Lines are read ahead and translated together. Where none is there yet, as from a
    pipe that stays open, what was read is answered first.

    \b
    echo "A dog runs." | headwise translate en-de
    headwise translate en-de test.en > test.de
    headwise translate en-de test.en --beam 5 --n-best 5 > test.jsonl
    headwise translate en-de test.en --search search=sampling --search top_k=10
    """
    from headwise.cli.translation_progress import TranslationProgress
    from headwise.decoding.settings import paper as paper_search
    from headwise.settings import as_table

    folders = [folder, *(ensemble or [])]
    check_engine(engine, precision, models=len(folders))
    check_device(device)
    check_kernels()
    check_models(*folders)
    check_files(*(files or ()), prefix_file)
    check_input(files or [])
    check_prefixes(prefix_file, files or [])
    check_out_file(
        "--alignments", alignments, inputs=[*folders, *(files or ()), prefix_file]
    )
    table: dict[str, Any] = as_table(paper_search()) if paper else {}
    if beam is not None:
        table["beam"] = beam
    if num_best is not None:
        table["num_best"] = num_best
    if alignments is not None:
        table["alignments"] = True
    asked = search_table(search)
    table |= asked
    chosen = check_search(folder, table, others=folders[1:])
    say_without_effect([*asked, *([] if beam is None else ["beam"])], chosen)
    as_json = scores or num_best is not None or chosen.num_best > 1
    table["scores"] = as_json

    from headwise.inference.translator import load

    on_cpu = engine in WITHOUT_TORCH and device in ("auto", "cpu") and not ensemble
    if not on_cpu:  # else torch, which takes seconds to import, is not needed
        use_threads(threads)
    translator = load(
        folders,
        device="cpu" if on_cpu else chosen_device(device),
        engine=engine,
        precision=precision,
        deterministic=deterministic,
        threads=threads,
    )
    at_terminal = is_terminal(files or [])
    if at_terminal:
        say("type a line to translate it; Ctrl-D ends")
    lines = InputLines(
        files or [],
        refuse_old_mac=False,
        after_each=interactive or at_terminal,
        before_waiting=flush_output,
    )
    found = translator.lines(
        lines,
        prefixes=lines_of([prefix_file]) if prefix_file else None,
        on_progress=TranslationProgress(lines.where),
        **table,
    )
    aligned = []
    for number, each in enumerate(found, start=1):
        for warning in each.warnings:
            say(f"{lines.where(number)}: {warning}")
        output(_json(each) if as_json else each.text, flush=False)
        if alignments is not None:
            aligned.append(f"{each.candidates[0].alignment}\n")
    flush_output()
    if alignments is not None:
        write_out_file(alignments, "".join(aligned))
    say_engines(translator.engine.used, engine)


def _json(each: Translated) -> str:
    candidates = [as_json_table(candidate) for candidate in each.candidates]
    return json.dumps(
        {"source": each.source, "translations": candidates, "warnings": each.warnings},
        ensure_ascii=False,
    )


def as_json_table(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as JSON shows it; what was not asked for is left out."""
    table: dict[str, Any] = {
        "text": candidate.text,
        "score": candidate.score,
        "log_probability": candidate.log_probability,
    }
    if candidate.tokens:
        table["tokens"] = [list(each) for each in candidate.tokens]
    if candidate.alignment:
        table["alignment"] = candidate.alignment
    return table
