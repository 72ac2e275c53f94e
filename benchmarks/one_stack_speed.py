"""Compare a GPT and a BERT of headwise with plain loops in PyTorch, in turn, on a CPU.

python benchmarks/one_stack_speed.py
python benchmarks/one_stack_speed.py --only generation

The sizes are those that nanoGPT recommends for a CPU: 4 layers, 4 heads, d_model 128,
context 64, 12 texts in a batch, characters; without dropout, as nanoGPT has it there,
and with one of 0.1 in all places, as ``torch.nn.TransformerEncoderLayer`` has it by
itself. The BERT has as many layers and that dropout, and predicts 15 % of its tokens;
its texts are of one length, or of different ones. The plain loops are what one would
write around ``torch.nn.TransformerEncoder``; generation has a KV cache. Each starts
from the weights of headwise's model, and must have its first loss, or write its text.

Every measurement is a process of its own; they take turns, round after round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from result_file import (
    SEARCH,
    TRAINING,
    Measurement,
    add_options,
    busy_seconds,
    own_seconds,
    place_of,
)

RESULTS = Path(__file__).parent / "results" / "one_stack_speed.json"
CASES = (
    *("gpt", "gpt, dropout 0.1", "bert", "bert, texts of 8 to 64 tokens"),
    "generation",
)
"""Training, but for the last."""

BARS = {"gpt": 2.5, "bert": 2.5, "generation": 3.0}
"""What headwise is to be, times the plain loop."""

DISTURBED = 0.1
"""Cores that are busy for others, from which a measurement does not count."""

TEXTS, CONTEXT, VOCABULARY, MASKED = 12, 64, 69, 0.15


def measure(case: str, trainer: str, repeats: int) -> dict[str, Any]:
    """Run one case; return tokens a second, and what the other trainer must equal."""
    import torch
    from one_stack import models

    torch.manual_seed(1)
    made = models.make(case)
    run: Callable[[], Any]
    if case == "generation":
        run = models.generation(made, trainer)
        tokens = CONTEXT - 1
    else:
        run, tokens = models.training(made, trainer)
    first, seconds = run(), []
    run()
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return {
        "tokens_per_second": tokens / statistics.median(seconds),
        "first": first,
        "threads": torch.get_num_threads(),
    }


def undisturbed(command: list[str], patience: int) -> dict[str, Any]:
    """Run a measurement, again and again until others leave the cores alone.

    After ``patience`` times the last one counts. What others took is in the result.
    """
    for _ in range(patience):
        started, before = time.monotonic(), busy_seconds() - own_seconds()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        others = busy_seconds() - own_seconds() - before
        share = others / (time.monotonic() - started)
        if share < DISTURBED:
            break
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"cores_busy_for_others": round(max(0.0, share), 2)}


def assert_equal(case: str, found: dict[str, dict[str, Any]]) -> None:
    """Compare the first loss, or the text."""
    plain, ours = (found[name]["first"] for name in ("plain", "headwise"))
    same = plain == ours if case == "generation" else abs(plain - ours) < 1e-3
    if not same:
        raise AssertionError(f"{case}: the plain loop gave {plain}, headwise {ours}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--patience", type=int, default=30, help="disturbed runs")
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.one, arguments.repeats)))
        return
    if arguments.rehearse:
        arguments.rounds, arguments.repeats, arguments.patience = 1, 2, 1
    sources = [*TRAINING, *SEARCH, "benchmarks/one_stack/*.py"]
    measurement = Measurement.begin(sources)
    cases = arguments.only or CASES
    trainers = ("plain", "headwise")
    speeds: dict[str, dict[str, list[float]]] = {
        case: {trainer: [] for trainer in trainers} for case in cases
    }
    disturbances: list[float] = []
    for number in range(arguments.rounds):
        for case in cases:
            found = {}
            for trainer in trainers:
                command = [sys.executable, __file__, "--one", case, trainer]
                command += ["--repeats", str(arguments.repeats)]
                found[trainer] = undisturbed(command, arguments.patience)
                disturbances.append(found[trainer]["cores_busy_for_others"])
                speed = found[trainer]["tokens_per_second"]
                speeds[case][trainer].append(speed)
                print(
                    f"round {number + 1}: {case}, {trainer}: {speed:,.0f} tokens/s, "
                    f"{disturbances[-1]} cores busy for others",
                    flush=True,
                )
            assert_equal(case, found)
    result = {
        "rounds": arguments.rounds,
        "threads": found["plain"]["threads"],
        "cores_busy_for_others_at_most": max(disturbances),
        "texts": TEXTS,
        "context": CONTEXT,
        "cases": {case: row(case, each) for case, each in speeds.items()},
    }
    measurement.write(place_of(arguments), result)
    print(json.dumps(result["cases"], indent=2))


def row(case: str, speeds: dict[str, list[float]]) -> dict[str, Any]:
    """Return the medians of a case, and their ratio."""
    medians = {name: statistics.median(each) for name, each in speeds.items()}
    return {
        "tokens_per_second": {
            name: {"median": round(medians[name]), "all": [round(x) for x in each]}
            for name, each in speeds.items()
        },
        "times_plain": round(medians["headwise"] / medians["plain"], 2),
        **({"bar": BARS[case]} if case in BARS else {}),
    }


if __name__ == "__main__":
    main()
