"""Run one trainer in this process, and print what it did as one line of JSON.

python -m training.measure TRAINER --folder F --size tiny --precision bf16 ...

Run with the rival's python, and with the folder ``benchmarks`` on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

TRAINERS = {
    "headwise": "headwise_itself",
    "plain": "plain_loop",
    "marian": "marian",
    "opennmt-py": "opennmt_py",
    "joeynmt": "joey_nmt",
    "eole": "eole_nmt",
}
"""Trainers, and the module of each."""


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train, and return losses, seconds and counts of the updates after warm-up."""
    import torch
    from process_memory import peak_of

    from training.batches import first, vocabulary
    from training.facts import SIZES, Setup, products

    folder = Path(arguments.folder)
    size = SIZES[arguments.size]
    setup = Setup(
        size=size,
        vocabulary=vocabulary(folder),
        precision=arguments.precision,
        places=arguments.places,
        path=arguments.path,
        folder=arguments.folder,
        seed=arguments.seed,
    )
    batches = first(folder, arguments.warm_up + arguments.updates)
    trainer = importlib.import_module(f"training.{TRAINERS[arguments.trainer]}")
    losses: list[float] = []
    times: list[float] = []
    faults: list[int] = []
    memory: list[int] = []

    def done(loss: float) -> None:
        times.append(time.perf_counter())
        losses.append(loss)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
        if len(times) == len(batches):  # before a trainer ends what it started
            memory.append(peak_of(os.getpid()))

    trainer.train(setup, batches, done)
    if len(times) != len(batches):
        raise AssertionError(f"{len(times)} updates of {len(batches)} batches")
    timed = batches[arguments.warm_up :]
    start = arguments.warm_up - 1
    seconds = times[-1] - times[start]
    sources = sum(batch.num_source_tokens for batch in timed)
    targets = sum(batch.num_target_tokens for batch in timed)
    work = sum(products(size, setup.vocabulary, batch.lengths) for batch in timed)
    return {
        "tokens_per_second": (sources + targets) / seconds,
        "target_tokens_per_second": targets / seconds,
        "seconds_per_update": seconds / len(timed),
        "seconds_of_updates": [
            after - before
            for before, after in zip(times[start:], times[start + 1 :], strict=False)
        ],
        "flops_per_update": work / len(timed),
        "flops_per_second": work / seconds,
        "peak_memory_mib": memory[0] // 2**20,
        "page_faults_per_update": (faults[-1] - faults[start]) / len(timed),
        "tokens": sources + targets,
        "losses": [round(loss, 4) for loss in losses],
        "threads": torch.get_num_threads(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trainer", choices=TRAINERS)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--places", default="usual")
    parser.add_argument("--path", default="auto")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--updates", type=int, default=20)
    result = measure(parser.parse_args())
    print(json.dumps(result))


if __name__ == "__main__":
    main()
