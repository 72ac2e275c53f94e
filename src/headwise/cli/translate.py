"""``headwise translate``: translate text line by line."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_environment,
    check_files,
    check_input,
    check_models,
    check_out_file,
    check_prefixes,
    check_search,
    check_translates,
    check_whole_lines,
)
from headwise.cli.options import (
    BackendName,
    Beam,
    Deterministic,
    Device,
    EngineName,
    Ensemble,
    Precision,
    SearchSettings,
    Threads,
    parse_search,
    resolve_device,
    say,
    say_engines,
    say_ignored_settings,
    use_threads,
)
from headwise.cli.out_files import write_out_file
from headwise.cli.standard_streams import flush_output, output
from headwise.cli.text_lines import (
    GivenLines,
    InputLines,
    input_lines,
    is_terminal,
)
from headwise.errors import UsageError
from headwise.inference.engines.engine_names import (
    MAY_DO_WITHOUT_TORCH,
    WITHOUT_TORCH,
    check_engine,
    renamed_engine,
)
from headwise.run_folder.installed_models import installed_translator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwise.inference.translator import Candidate, Translated


def translate(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="FOLDER",
            help="A run folder, a model folder, or the name of an installed model.",
        ),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...",
            help="Texts, plain or .gz. Default, or -: standard input.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE",
            help="Use the installed model of this language. The arguments are texts "
            "then, each a line or more.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="LANGUAGE",
            help="With --to, the language of the texts, if several models have it.",
            show_default=False,
        ),
    ] = None,
    beam: Beam = None,
    num_best: Annotated[
        int | None,
        typer.Option(
            "--n-best",
            min=1,
            help="Print the N best translations of each line, as JSON with scores.",
        ),
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Print JSON Lines with scores.")
    ] = False,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Decode as the paper did (Section 6.1)."),
    ] = False,
    search: SearchSettings = None,
    prefix_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Target prefixes (forced beginnings), one per line.",
            show_default=False,
        ),
    ] = None,
    alignments: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write word alignments there, as 0-0 1-2 (source-target).",
            show_default=False,
        ),
    ] = None,
    ensemble: Ensemble = None,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive",
            help="Translate each line before the next one is read.",
            show_default="if standard input is a terminal",
        ),
    ] = False,
    engine: EngineName = "auto",
    backend: BackendName = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    device: Device = "auto",
    deterministic: Deterministic = False,
) -> None:
    """Translate text: N lines in, N lines out.

    A blank line gives a blank line. A line longer than the model was trained for is
    split, translated and rejoined, with a warning. Bytes that are not UTF-8 are
    replaced, with a warning. Only translations go to standard output.

    Lines are read ahead and translated in batches. When no further line has arrived,
    as from a pipe that stays open, those read so far are translated first.

    \b
    echo "A dog runs." | headwise translate en-de
    headwise translate en-de test.en > test.de
    headwise translate --to fr "The cat sleeps."
    headwise translate en-de test.en --beam 5 --n-best 5 > test.jsonl
    headwise translate en-de test.en --search search=sampling --search top_k=10
    """
    from headwise.cli.translation_progress import TranslationProgress
    from headwise.decoding.settings import paper as paper_search
    from headwise.settings import as_table

    folder, paths, texts = _inputs(model, files or [], to, source)
    folders = [folder, *(ensemble or [])]
    check_engine(engine, precision, backend, models=len(folders))
    if message := renamed_engine(engine):
        say(message)
    check_device(device)
    check_environment()
    check_models(*folders)
    check_translates(*folders)
    check_files(*paths, prefix_file)
    if not texts:
        check_input(paths)
        check_whole_lines("translate", *paths)
    check_prefixes(prefix_file, paths)
    check_out_file("--alignments", alignments, inputs=[*folders, *paths, prefix_file])
    table: dict[str, Any] = as_table(paper_search()) if paper else {}
    if beam is not None:
        table["beam"] = beam
    if num_best is not None:
        table["num_best"] = num_best
    if alignments is not None:
        table["alignments"] = True
    overrides = parse_search(search)
    table |= overrides
    chosen = check_search(folder, table, others=folders[1:])
    say_ignored_settings([*overrides, *([] if beam is None else ["beam"])], chosen)
    as_json = scores or num_best is not None or chosen.num_best > 1
    table["scores"] = as_json

    from headwise.inference.translator import load

    # Torch takes seconds to import, and may not be needed.
    if engine in WITHOUT_TORCH and device == "auto":
        device = "cpu"
    device = resolve_device(device)
    needs_torch = engine not in MAY_DO_WITHOUT_TORCH or backend != "auto" or ensemble
    if needs_torch or device != "cpu":
        use_threads(threads)
    translator = load(
        folders,
        device=device,
        engine=engine,
        backend=backend,
        precision=precision,
        deterministic=deterministic,
        threads=threads,
    )
    at_terminal = not texts and is_terminal(paths)
    if at_terminal:
        say("type a line to translate it; Ctrl-D to exit")
    lines = (
        GivenLines(texts)
        if texts
        else InputLines(
            paths,
            refuse_old_mac=False,
            after_each=interactive or at_terminal,
            before_waiting=flush_output,
        )
    )
    found = translator.lines(
        lines,
        prefixes=input_lines([prefix_file]) if prefix_file else None,
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


def _inputs(
    model: str | None, files: Sequence[str], to: str | None, source: str | None
) -> tuple[Path, list[Path], list[str]]:
    """Return the folder of the model, the files to read, or the texts instead."""
    if to is not None:
        texts = [*([] if model is None else [model]), *files]
        folder = installed_translator(to, source)
        for each in filter(_names_file, texts):
            say(
                f"note: {each!r} is translated as a text; for what is in the file: "
                f"headwise translate {folder.name} {quote(each)}"
            )
        return folder, [], texts
    if model is None:
        raise UsageError(
            "name the FOLDER of a model, or by --to a language of an installed model"
        )
    if source is not None:
        raise UsageError("--from says which model of --to is meant; add --to")
    return _path(model), [_path(each) for each in files], []


def _names_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def _path(text: str) -> Path:
    """Return a path; an unset variable in a script would mean the current folder."""
    if not text:
        raise UsageError(
            "the name of a model or file: it is empty; name a folder, or . for the "
            "current one"
        )
    return Path(text)


def _json(each: Translated) -> str:
    candidates = [as_json_table(candidate) for candidate in each.candidates]
    return json.dumps(
        {"source": each.source, "translations": candidates, "warnings": each.warnings},
        ensure_ascii=False,
    )


def as_json_table(candidate: Candidate) -> dict[str, Any]:
    """Return the JSON object of a candidate; tokens and alignment only if present."""
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
