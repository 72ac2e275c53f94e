"""Measure how many lines change with the batch size, the threads or the order of lines.

python benchmarks/batch_invariance.py demo=tests/models/demo=TEXT en-de=RUN/best=TEXT

Each argument is NAME=MODEL=TEXT. For every engine and precision, all lines are
translated by one thread in one go; then again a few at a time, by several threads, in
another order, and with both at once. Counted are the lines whose words differ from the
first time, and those whose score differs in any bit. The last columns are of
``deterministic``, with the processor time it takes. ``used`` is what ``auto`` took.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from result_file import TRANSLATION, Measurement, add_options, place_of

import headwise

RESULTS = Path(__file__).parent / "results" / "batch_invariance.json"

COMBINATIONS = [
    ("auto", "float32"),
    ("auto", "bf16"),
    ("torch", "float32"),
    ("torch", "bf16"),
    ("ctranslate2", "float32"),
    ("ctranslate2", "int8"),
]
SEARCHES = {"greedy": {"beam": 1}, "beam 4": {"beam": 4}}

Found = list[tuple[str, str]]


@dataclass(frozen=True)
class Condition:
    """How lines are handed over."""

    threads: int = 1
    at_a_time: int = 1_000_000
    seed: int | None = None
    """Of the order; None: as they stand."""


CONDITIONS = {
    "1 line at a time": Condition(at_a_time=1),
    "2 threads": Condition(threads=2),
    "2 threads, another order, 37 lines at a time": Condition(2, 37, 1),
}
LAST = "2 threads, another order, 37 lines at a time"


def main() -> None:
    arguments = _arguments()
    measurement = Measurement.begin(TRANSLATION)
    most = 20 if arguments.rehearse else arguments.lines
    results: list[dict[str, Any]] = []
    for asked in arguments.models:
        name, folder, text = asked.split("=")
        with Path(text).open(encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in islice(file, most)]
        for engine, precision in COMBINATIONS:
            if arguments.only and arguments.only not in f"{engine} {precision}":
                continue
            for search, settings in SEARCHES.items():
                row = {"model": name, "engine": engine, "precision": precision}
                row |= {"search": search, "lines": len(lines)}
                row |= _measured(folder, lines, engine, precision, settings)
                results.append(row)
                print(json.dumps(row), flush=True)
                measurement.write(place_of(arguments), {"results": results})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL=TEXT")
    parser.add_argument("--lines", type=int, default=1000, help="of each text")
    parser.add_argument("--only", help="engines and precisions that hold this text")
    add_options(parser, RESULTS)
    return parser.parse_args()


def _measured(
    folder: str, lines: list[str], engine: str, precision: str, search: dict[str, Any]
) -> dict[str, Any]:
    """Return the shares of lines that differ under each condition."""
    how = {"engine": engine, "precision": precision}
    expected, seconds, used = _translated(folder, lines, Condition(), search, how)
    changed = {}
    for name, condition in CONDITIONS.items():
        found, *_ = _translated(folder, lines, condition, search, how)
        changed[name] = _differing(found, expected)
    alone = how | {"deterministic": True}
    first, longer, _ = _translated(folder, lines, Condition(), search, alone)
    again, *_ = _translated(folder, lines, CONDITIONS[LAST], search, alone)
    most = max(each["words"] for each in changed.values())
    return {
        "used": used,
        "changed": changed,
        "same words, at least": round(1 - most / len(lines), 5),
        "deterministic": {
            **_differing(again, first),
            "words that are not those of the usual way": _differing(first, expected)[
                "words"
            ],
            "processor time, times": round(longer / seconds, 2),
        },
    }


def _translated(
    folder: str,
    lines: list[str],
    condition: Condition,
    search: dict[str, Any],
    how: dict[str, Any],
) -> tuple[Found, float, str]:
    """Return words and score of each line, the processor time, and the engine."""
    translator = headwise.load(folder, threads=condition.threads, **how)
    translator.translate(lines[0], **search)
    order = list(range(len(lines)))
    if condition.seed is not None:
        random.Random(condition.seed).shuffle(order)
    found: Found = [("", "")] * len(lines)
    begin = time.process_time()
    for first in range(0, len(order), condition.at_a_time):
        places = order[first : first + condition.at_a_time]
        outputs = translator.lines((lines[place] for place in places), **search)
        for place, each in zip(places, outputs, strict=True):
            found[place] = each.text, float(each.candidates[0].score).hex()
    return found, time.process_time() - begin, translator.engine.name


def _differing(found: Found, expected: Found) -> dict[str, int]:
    pairs = list(zip(found, expected, strict=True))
    return {
        "words": sum(one[0] != other[0] for one, other in pairs),
        "bits of the score": sum(one[1] != other[1] for one, other in pairs),
    }


if __name__ == "__main__":
    main()
