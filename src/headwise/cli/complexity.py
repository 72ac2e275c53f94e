"""``headwise complexity``: Table 1 of the paper, counted and measured here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.cli.argument_checks import check_out_file
from headwise.cli.options import parse_minutes, parse_path, say
from headwise.cli.out_files import write_out_file
from headwise.cli.standard_streams import is_terminal, output
from headwise.complexity.sizes import MIN_VALUES, ComplexitySettings
from headwise.errors import ResourceError, UsageError
from headwise.inference.engines.engine_names import MAX_THREADS

DEFAULTS = ComplexitySettings()

MAX_SIZE = 65536
MAX_BATCH = 1024


def sizes_option(help: str, default: Sequence[int]) -> Any:
    """Return an option for the values of a size."""
    shown = ",".join(map(str, default))
    return typer.Option(metavar="A,B,C,...", help=help, show_default=shown)


def complexity(
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write an HTML page with plots, in one file.",
            parser=parse_path,
            show_default=False,
        ),
    ] = None,
    max_time: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How long times are measured, such as 30s or 5m. Counts and memory "
            "take about 20 s more; three measurements of everything are made in any "
            "case.",
        ),
    ] = "2m",
    lengths: Annotated[
        str | None, sizes_option("Positions of a sequence (n).", DEFAULTS.lengths)
    ] = None,
    widths: Annotated[
        str | None, sizes_option("Channels of a position (d).", DEFAULTS.widths)
    ] = None,
    kernels: Annotated[
        str | None, sizes_option("Kernel widths of convolutions (k).", DEFAULTS.kernels)
    ] = None,
    windows: Annotated[
        str | None,
        sizes_option("Windows of restricted attention (r).", DEFAULTS.windows),
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, max=MAX_BATCH, help="Sequences in a batch.")
    ] = DEFAULTS.batch,
    threads: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_THREADS,
            help="CPU threads. The time of one is its processor time, of more it is "
            "wall-clock time.",
        ),
    ] = DEFAULTS.threads,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with every measurement.")
    ] = False,
) -> None:
    """Count and measure the layers of Table 1.

    Self-attention, restricted self-attention, recurrent and convolutional layers, on
    this machine: multiply-adds, exponents of time and memory in n, d, k and r with
    their 95% intervals, chains of operations, path lengths, and from what length on
    self-attention is slower than each. A terminal gets tables; a pipe gets one line
    for each layer, tab-separated.

    \b
    headwise complexity --out complexity.html
    headwise complexity --max-time 10m --json > complexity.json
    headwise complexity --lengths 64,128,256,512 --widths 64,128,256 --batch 1
    """
    settings = ComplexitySettings(
        lengths=parse_sizes("--lengths", lengths, DEFAULTS.lengths),
        widths=parse_sizes("--widths", widths, DEFAULTS.widths),
        kernels=parse_sizes("--kernels", kernels, DEFAULTS.kernels, odd=True),
        windows=parse_sizes("--windows", windows, DEFAULTS.windows, odd=True),
        batch=batch,
        threads=threads,
        seconds=60 * parse_minutes(max_time),
    )
    check_out_file("--out", out, inputs=[])
    check_memory(settings)
    from headwise.complexity.benchmark import measure_complexity
    from headwise.complexity.complexity_page import complexity_page
    from headwise.complexity.tables import as_json as result_as_json
    from headwise.complexity.tables import as_lines, as_tsv, notes

    result = measure_complexity(settings, say)
    if out is not None:
        write_out_file(out, complexity_page(result, written=time.time()))
    if as_json:
        output(result_as_json(result))
    elif is_terminal():
        output("\n".join(["", *as_lines(result), ""]))
    else:
        output(as_tsv(result))
    for note in notes(result):
        say(f"note: {note}")
    if out is not None:
        say(f"{out}: open it in a browser")


def check_memory(settings: ComplexitySettings) -> None:
    """Raise ``ResourceError`` if the largest sizes do not fit into memory."""
    from headwise.training.memory_usage import ProcessMemory

    free = ProcessMemory().free()
    if free is not None and settings.most_bytes > free:
        raise ResourceError(
            f"these sizes need about {settings.most_bytes / 2**30:.1f} GiB of memory, "
            f"and {free / 2**30:.1f} GiB are free: self-attention is measured up to "
            f"{settings.longest:,} positions, twice the longest of --lengths, times "
            f"--batch {settings.batch}; choose smaller --lengths, --widths or --batch"
        )


def parse_sizes(
    option: str, text: str | None, default: Sequence[int], *, odd: bool = False
) -> Sequence[int]:
    """Return the sizes of ``128,256,512`` in ascending order; None: ``default``.

    Raises ``UsageError`` for anything else than three different whole numbers or more,
    from 2, and if ``odd`` odd ones.
    """
    if text is None:
        return default
    example = ",".join(map(str, default[:MIN_VALUES]))
    parts = [each.strip() for each in text.split(",")]
    if not all(each.isascii() and each.isdigit() for each in parts):
        raise UsageError(
            f"{option} takes whole numbers, such as {example}, not {text!r}"
        )
    sizes = sorted(map(int, parts))
    if len(set(sizes)) < max(len(sizes), MIN_VALUES):
        raise UsageError(
            f"{option} needs {MIN_VALUES} different sizes or more, such as {example}: "
            f"with fewer, exponents have no interval; {text!r} has {len(set(sizes))}"
        )
    if not 2 <= sizes[0] <= sizes[-1] <= MAX_SIZE:
        raise UsageError(
            f"{option} takes sizes from 2 to {MAX_SIZE:,}, not those of {text!r}"
        )
    if odd and (even := [each for each in sizes if each % 2 == 0]):
        raise UsageError(
            f"{option} takes odd numbers, with as many positions before the middle as "
            f"after it; {even[0]} is even, {even[0] + 1} is not"
        )
    return sizes
