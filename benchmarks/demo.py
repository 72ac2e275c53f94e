"""Run ``headwise demo`` as a user does, and keep what it took and what came out.

python benchmarks/demo.py

Its scores are read off what it prints, the time of training off the run's log; whole
minutes are from the start of the command to its end, the corpus and scores counted.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from result_file import (
    COMMAND_LINE,
    TRAINING,
    TRANSLATION,
    Measurement,
    add_options,
    place_of,
)

RESULTS = Path(__file__).parent / "results" / "demo.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    measurement = Measurement.begin(
        [*TRAINING, *TRANSLATION, *COMMAND_LINE, "src/headwise/demo_corpus/*"]
    )
    with tempfile.TemporaryDirectory() as made:
        out = Path(made) / "demo"
        command = [sys.executable, "-m", "headwise", "demo", "--out", str(out)]
        if arguments.rehearse:
            command += ["--max-time", "20s"]
        started = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        seconds = time.perf_counter() - started
        training = log_of(out)
    figures = {"whole_minutes": round(seconds / 60, 2), **training, **scores(done)}
    measurement.write(place_of(arguments), figures)
    print(json.dumps(figures, indent=2, ensure_ascii=False))


def log_of(out: Path) -> dict[str, float]:
    """Return updates and minutes of training, from the last entry that has them."""
    lines = (out / "log.jsonl").read_text("utf-8").splitlines()
    ends = [each for each in map(json.loads, lines) if each["what"] == "end"]
    return {
        "updates": ends[-1]["step"],
        "training_minutes": round(ends[-1]["seconds"] / 60, 2),
    }


def scores(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """Return the scores and verdicts that were printed."""

    def found(pattern: str) -> float:
        (value,) = re.findall(pattern, done.stdout, re.M)
        return float(value)

    verdicts = re.findall(r"^ +(correct|reference:)", done.stdout, re.M)
    return {
        "bleu": found(r"^BLEU ([0-9.]+)"),
        "pronouns_percent": found(r"^il or elle: ([0-9.]+)%"),
        "exact_percent": found(r"^exact match: ([0-9.]+)%"),
        "examples_right": verdicts.count("correct"),
        "examples": len(verdicts),
    }


if __name__ == "__main__":
    main()
