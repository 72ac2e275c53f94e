"""Measure what the fast ways of a training step gain, each against its readable twin.

python benchmarks/step_speed.py
python benchmarks/step_speed.py --two-passes

With ``--two-passes``, what R-Drop and SimCut cost: tokens that go through the model a
second of processor time, beside as many tokens of a single pass, on one thread. The
batches take turns in one process, as other programs may use the machine.

One update of the preset tiny on a batch of random tokens, 256 pairs of 16 + 16, with a
vocabulary of 8,000. Every variant is a process of its own (the allocator is set for a
whole process); they take turns, round after round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from result_file import TRAINING, Measurement, add_options, place_of

RESULTS = Path(__file__).parent / "results" / "step_speed.json"
VARIANTS = {
    "readable": [],
    "readable, bf16": ["bf16"],
    "fast": ["fast"],
    "fast, allocator": ["fast", "allocator"],
    "fast, allocator, bf16": ["fast", "allocator", "bf16"],
}
"""What is fast in each; the last two are what headwise does, by the processor."""

PAIRS, LENGTH, VOCABULARY = 256, 16, 8000

TWO_PASS_RESULTS = RESULTS.with_name("two_passes.json")
WAYS = ("native", "native, bf16", "torch", "torch, bf16")
"""A backend, and the number format of its matrix products."""


def measure(fast: list[str], updates: int) -> float:
    """Return the median of tokens a second over some updates."""
    import torch
    from random_pairs import random_batch

    from headwise.backends.pytorch.install_fused import use_backend
    from headwise.backends.select_training import cross_entropy_of
    from headwise.model import PRESETS, Transformer
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.optimizer import Optimizer
    from headwise.training.settings import TrainingSettings

    if "allocator" in fast:
        keep_freed_memory()
    model = Transformer(PRESETS["tiny"].config, VOCABULARY)
    use_backend(model, "torch" if "fast" in fast else "reference")
    optimizer = Optimizer(model, TrainingSettings())
    batch = random_batch(PAIRS, length=LENGTH, vocabulary=VOCABULARY)
    count = PAIRS * LENGTH
    seconds = []
    for _ in range(updates + 2):
        started = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in fast):
            loss = cross_entropy_of(model, batch, smoothing=0.1)
        (loss / count).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - started)
    return 2 * count / statistics.median(seconds[2:])


def measure_passes(way: str, updates: int) -> dict[str, float]:
    """Return the median of tokens a processor second of a single pass and of two."""
    import torch
    from random_pairs import random_batch

    from headwise.backends.pytorch.install_fused import use_backend
    from headwise.backends.select_training import cross_entropy_of, two_pass_loss_of
    from headwise.model import PRESETS, Transformer
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.micro_batch import MicroBatchRunner
    from headwise.training.optimizer import Optimizer
    from headwise.training.settings import TrainingSettings

    keep_freed_memory()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    backend, _, half = way.partition(", ")
    model = Transformer(PRESETS["tiny"].config, VOCABULARY).train()
    single = TrainingSettings(backend=backend, precision=half or "float32", processes=1)
    forms = {
        "single pass": (single, PAIRS),
        "R-Drop": (replace(single, r_drop=5.0), PAIRS // 2),
        "SimCut": (replace(single, simcut=3.0), PAIRS // 2),
    }
    optimizer = Optimizer(use_backend(model, backend), single)
    seconds: dict[str, list[float]] = {name: [] for name in forms}
    steps = {
        name: (
            MicroBatchRunner(
                cross_entropy_of, model, chosen, seed=1, two_pass_loss=two_pass_loss_of
            ),
            random_batch(pairs, length=LENGTH, vocabulary=VOCABULARY),
        )
        for name, (chosen, pairs) in forms.items()
    }
    for step in range(updates + 2):
        for name, (runner, batch) in steps.items():
            started = time.process_time()
            optimizer.zero_grad()
            runner.run([batch], 1 / batch.num_target_tokens, step, 0)
            optimizer.step()
            seconds[name].append(time.process_time() - started)
    return {
        name: 2 * PAIRS * LENGTH / statistics.median(each[2:])
        for name, each in seconds.items()
    }


def two_passes(rounds: int, updates: int) -> dict[str, Any]:
    """Return the speed of two passes by each way, and as a share of a single one."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            found[way].append(json.loads(run_alone(way, updates)))
    result: dict[str, Any] = {}
    for way, measured in found.items():
        medians = {
            name: statistics.median(each[name] for each in measured)
            for name in measured[0]
        }
        result[way] = {
            name: {
                "tokens_per_processor_second": round(speed),
                "share": round(speed / medians["single pass"], 3),
                "all": [round(each[name]) for each in measured],
            }
            for name, speed in medians.items()
        }
    return result


def run_alone(name: str, updates: int) -> str:
    """Measure ``name`` in a process of its own; return what it prints."""
    command = [sys.executable, __file__, "--one", name, "--updates", str(updates)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=6)
    parser.add_argument("--two-passes", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.one in WAYS:
        print(json.dumps(measure_passes(arguments.one, arguments.updates)))
        return
    if arguments.one:
        print(measure(VARIANTS[arguments.one], arguments.updates))
        return
    if arguments.rehearse:
        arguments.rounds, arguments.updates = 1, 2
    measurement = Measurement.begin(TRAINING)
    if arguments.two_passes:
        arguments.default_out = TWO_PASS_RESULTS
        ways = two_passes(arguments.rounds, arguments.updates)
        result = {"rounds": arguments.rounds, "ways": ways}
        measurement.write(place_of(arguments), result)
        print(json.dumps(ways, indent=2))
        return
    found: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for _ in range(arguments.rounds):
        for name in VARIANTS:
            found[name].append(float(run_alone(name, arguments.updates)))
    medians = {name: statistics.median(each) for name, each in found.items()}
    result = {
        "rounds": arguments.rounds,
        "tokens_per_second": {
            name: {
                "median": round(medians[name]),
                "all": [round(each) for each in found[name]],
                "times_readable": round(medians[name] / medians["readable"], 2),
            }
            for name in VARIANTS
        },
    }
    measurement.write(place_of(arguments), result)
    print(json.dumps(result["tokens_per_second"], indent=2))


if __name__ == "__main__":
    main()
