"""Measure what the fast ways of a training step gain, each against its readable twin.

python benchmarks/step_speed.py

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
from pathlib import Path

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


def measure(fast: list[str], updates: int) -> float:
    """Return the median of tokens a second over some updates."""
    import torch

    from headwise.backends.pytorch.install_fused import use_backend
    from headwise.backends.select_training import cross_entropy_of
    from headwise.data.ragged_batch import Batch, RaggedTokens
    from headwise.model import PRESETS, Transformer
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.optimizer import make_optimizer
    from headwise.training.settings import TrainingSettings

    if "allocator" in fast:
        keep_freed_memory()
    model = Transformer(PRESETS["tiny"].config, VOCABULARY)
    use_backend(model, "torch" if "fast" in fast else "reference")
    optimizer = make_optimizer(model, TrainingSettings())
    lengths, count = torch.full((PAIRS,), LENGTH), PAIRS * LENGTH
    source, target = (
        RaggedTokens.from_lengths(tokens, lengths)
        for tokens in torch.randint(4, VOCABULARY, (2, count))
    )
    batch = Batch(source, target, torch.arange(PAIRS))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=6)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.one:
        print(measure(VARIANTS[arguments.one], arguments.updates))
        return
    if arguments.rehearse:
        arguments.rounds, arguments.updates = 1, 2
    measurement = Measurement.begin(TRAINING)
    found: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for _ in range(arguments.rounds):
        for name in VARIANTS:
            command = [sys.executable, __file__, "--one", name]
            command += ["--updates", str(arguments.updates)]
            done = subprocess.run(
                command, check=True, stdout=subprocess.PIPE, text=True
            )
            found[name].append(float(done.stdout))
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
