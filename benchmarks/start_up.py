"""Measure how long the command line takes to answer: help, a mistake, one line.

python benchmarks/start_up.py

Each command runs in turn, several rounds, beside an interpreter that does nothing and
one that only imports torch; ``beyond_torch`` is what a command takes more than that in
the same round. Processor time is noted with time, as it says more where others work on
the machine, and so are the most memory that was resident, and the size of the packages
that are needed. A first round, in which bytecode, kernels and exports are made, is left
out: they are made once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from result_file import (
    COMMAND_LINE,
    ROOT,
    TRANSLATION,
    Measurement,
    add_options,
    place_of,
)

RESULTS = Path(__file__).parent / "results" / "start_up.json"

COMMANDS = [
    *("run", "prepare", "train", "translate", "evaluate", "score", "export", "recipe"),
    *("runs", "doctor", "demo"),
]
ENGINE_NATIVE = ("numpy", "safetensors", "sentencepiece", "typer")
"""Packages that the engine native needs: see docs/decoding.md."""

NOTHING = "python -c pass"
TORCH = 'python -c "import torch"'
LINE = b"The cat is tired.\n"
MISTAKE = 2
"""The code of a command line that is wrong."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    add_options(parser, RESULTS)
    chosen = parser.parse_args()
    rounds = 1 if chosen.rehearse else chosen.rounds
    measurement = Measurement.begin(
        [*TRANSLATION, *COMMAND_LINE, "src/headwise/run_folder/*"]
    )
    with tempfile.TemporaryDirectory() as made:
        model = shutil.copytree(ROOT / "tests" / "models" / "demo", Path(made) / "demo")
        spent = measure(commands_with(model), rounds)
    figures = {
        "rounds": rounds,
        "seconds": {name: summary(each) for name, each in spent["seconds"].items()},
        "processor_seconds": {
            name: summary(each) for name, each in spent["processor_seconds"].items()
        },
        "installed_mib": {
            "headwise": installed_mib(["headwise"]),
            "engine native": installed_mib(ENGINE_NATIVE),
        },
        "peak_mib": {name: summary(each) for name, each in spent["peak_mib"].items()},
        "beyond_torch": {
            kind: {
                name: summary([a - b for a, b in zip(each, of[TORCH], strict=True)])
                for name, each in of.items()
                if name.startswith("headwise translate model")
            }
            for kind, of in spent.items()
            if kind != "peak_mib"
        },
    }
    measurement.write(place_of(chosen), figures)
    print(json.dumps(figures, indent=2))


def commands_with(model: Path) -> dict[str, list[str]]:
    """Return every command that is timed, under the name that it has in the result."""
    headwise = str(Path(sys.executable).with_name("headwise"))
    translate = [headwise, "translate", str(model)]
    commands = {
        NOTHING: [sys.executable, "-c", "pass"],
        "headwise --version": [headwise, "--version"],
        "headwise --help": [headwise, "--help"],
        **{
            f"headwise {command} --help": [headwise, command, "--help"]
            for command in COMMANDS
        },
        "headwise translate model --precision int4": [*translate, "--precision=int4"],
        TORCH: [sys.executable, "-c", "import torch"],
        "headwise translate model": translate,
        "headwise translate model --engine torch": [*translate, "--engine=torch"],
    }
    if find_spec("ctranslate2"):
        name = "headwise translate model --engine ctranslate2"
        commands[name] = [*translate, "--engine=ctranslate2"]
    return commands


def installed_mib(names: Iterable[str]) -> float:
    """Return the size of these packages and all that they depend on, without extras."""
    found: dict[str, int] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:  # only for other systems
            continue
        if package.name in found:
            continue
        files = (package.locate_file(each) for each in package.files or ())
        found[package.name] = sum(Path(str(each)).stat().st_size for each in files)
        for text in package.requires or ():
            needed, _, condition = text.partition(";")
            if "extra" not in condition:
                waiting.append(re.split(r"[^\w.-]", needed.strip())[0])
    return round(sum(found.values()) / 2**20, 1)


def measure(
    commands: Mapping[str, Sequence[str]], rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Return what each command took in each round but the first."""
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users have bytecode
    spent: dict[str, dict[str, list[float]]] = {
        kind: {name: [] for name in commands}
        for kind in ("seconds", "processor_seconds", "peak_mib")
    }
    for number in range(rounds + 1):
        for name, command in commands.items():
            taken = run(name, command, environment)
            for kind, value in taken.items() if number else ():
                spent[kind][name].append(value)
    return spent


def run(
    name: str, command: Sequence[str], environment: Mapping[str, str]
) -> dict[str, float]:
    """Run a command once, with a line as its input; return what it took."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(LINE)
        given.seek(0)
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env=environment,
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != (MISTAKE if "int4" in name else 0):
            said.seek(0)
            raise SystemExit(f"{name}: {said.read().decode()}")
    return {
        "seconds": seconds,
        "processor_seconds": used.ru_utime + used.ru_stime,
        "peak_mib": used.ru_maxrss / 1024,
    }


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def summary(values: Sequence[float]) -> dict[str, Any]:
    return {
        "median": round(statistics.median(values), 3),
        "least": round(min(values), 3),
    }


if __name__ == "__main__":
    main()
