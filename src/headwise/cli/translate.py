"""``headwise translate``: text in, text out, line by line."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from headwise.cli.options import (
    Beam,
    Device,
    EngineName,
    Precision,
    Threads,
    chosen_device,
    say,
    say_engines,
    use_threads,
)
from headwise.errors import DataError

if TYPE_CHECKING:
    from headwise.predictor import Translated

STANDARD_INPUT = Path("-")


def translate(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A run folder or a model folder.")
    ],
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
    engine: EngineName = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    device: Device = "auto",
) -> None:
    """Translate text; N lines in, N lines out.

    A blank line gives a blank line. A line that is longer than the model was trained
    for is split, translated and rejoined, with a warning. Bytes that are not UTF-8 are
    replaced, with a warning. Only translations go to standard output.

    \b
    echo "A dog runs." | headwise translate en-de
    headwise translate en-de test.en > test.de
    headwise translate en-de test.en --beam 5 --n-best 5 > test.jsonl
    """
    from dataclasses import replace

    from headwise.decoding.settings import paper as paper_search
    from headwise.predictor import load

    use_threads(threads)
    for path in files or []:
        if path != STANDARD_INPUT and (not path.exists() or path.is_dir()):
            raise DataError(
                f"{path} is {'a folder' if path.exists() else 'not there'}; name text "
                "files, or none for standard input"
            )
    translator = load(
        folder, device=chosen_device(device), engine=engine, precision=precision
    )
    settings = paper_search() if paper else translator.decoding
    if beam is not None:
        settings = replace(settings, beam=beam)
    if num_best is not None:
        settings = replace(settings, num_best=num_best)
    search = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    as_json = scores or num_best is not None
    found = translator.lines(_lines(files or []), **search)
    for number, each in enumerate(found, start=1):
        for warning in each.warnings:
            say(f"line {number:,}: {warning}")
        sys.stdout.buffer.write((_json(each) if as_json else each.text).encode())
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
    if engine == "auto":
        say_engines(translator.engine.used)


def _json(each: Translated) -> str:
    candidates = [
        {
            "text": candidate.text,
            "score": candidate.score,
            "log_probability": candidate.log_probability,
        }
        for candidate in each.candidates
    ]
    return json.dumps(
        {"source": each.source, "translations": candidates, "warnings": each.warnings},
        ensure_ascii=False,
    )


def _lines(files: list[Path]) -> Iterator[str]:
    """Yield the lines of all files, or of standard input."""
    from headwise.data.reading import unzipped

    for path in files or [STANDARD_INPUT]:
        if path == STANDARD_INPUT:
            yield from _mended(sys.stdin.buffer, "standard input")
            continue
        try:
            with path.open("rb") as file:
                yield from _mended(unzipped(file), str(path))
        except (EOFError, zlib.error) as error:
            raise DataError(
                f"{path} is a damaged .gz file: {error}; copy it again"
            ) from None
        except OSError as error:
            reason = error.strerror or error
            raise DataError(f"{path} cannot be read: {reason}") from None


def _mended(stream: BinaryIO, name: str) -> Iterator[str]:
    """Yield the lines of ``stream``; then say what was mended in them."""
    from headwise.text.lines import LineTally, split_lines

    tally = LineTally()
    for line in split_lines(stream, name=name, strict=False):
        tally.add(line)
        yield line.text
    for note in tally.notes(name):
        say(note)
