"""Measure how long the command line takes to answer without doing anything.

python benchmarks/start_up.py

Each command runs in turn, several rounds, beside an interpreter that does nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from result_file import Measurement, add_options, place_of

RESULTS = Path(__file__).parent / "results" / "start_up.json"
VERBS = [
    *("run", "prepare", "train", "translate", "evaluate", "recipe", "runs"),
    *("doctor", "demo"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    rounds = 1 if arguments.rehearse else arguments.rounds
    measurement = Measurement.begin(["src/headwise/**/*"])
    headwise = str(Path(sys.executable).with_name("headwise"))
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "headwise --version": [headwise, "--version"],
        "headwise --help": [headwise, "--help"],
        **{f"headwise {verb} --help": [headwise, verb, "--help"] for verb in VERBS},
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - started)
    result = {
        "rounds": rounds,
        "seconds": {
            name: {
                "median": round(statistics.median(each), 3),
                "least": round(min(each), 3),
            }
            for name, each in seconds.items()
        },
    }
    measurement.write(place_of(arguments), result)
    print(json.dumps(result["seconds"], indent=2))


if __name__ == "__main__":
    main()
