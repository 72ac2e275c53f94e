"""What the four scripts share: their options, and the results as JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.result_file import RESULTS, SAVING, Measurement, add_options, place_of

SOURCES = (*SAVING, "src/headwise/training/*", "benchmarks/durability/*.py")


def arguments_with(text: str | None, **counts: tuple[int, str]) -> argparse.Namespace:
    """Read the command line: each count by its name, and a folder for scratch files.

    What is known of the machine and the sources is noted, for :func:`finish`.
    """
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, (default, what) in counts.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=what)
    parser.add_argument("--scratch", type=Path, help="a folder on a disk to use")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.rehearse:
        for name, (default, _) in counts.items():
            setattr(arguments, name, min(getattr(arguments, name), default // 50 or 1))
    arguments.measurement = Measurement.begin(SOURCES)
    return arguments


def finish(
    name: str,
    facts: dict[str, Any],
    problems: Iterable[object],
    arguments: argparse.Namespace,
) -> None:
    """Write the results; end with status 1 where there is a problem."""
    arguments.default_out = RESULTS / f"durability_{name}.json"
    path = place_of(arguments)
    arguments.measurement.write(path, facts)
    print(path)
    sys.exit(1 if any(problems) else 0)
