"""Measure what a checkpoint of the base model costs: time, memory, and where they go.

python benchmarks/save_speed.py

Several rounds, of which the median is reported: writing tensors with the library's own
writer and with ours, a whole save, and a rotation that deletes one old checkpoint.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from result_file import SAVING, Measurement, add_options, place_of
from safetensors.torch import save_file

from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer
from headwise.run_folder.checkpoints import Checkpoints
from headwise.run_folder.safetensors_files import write_tensors
from headwise.storage import sync, verify
from headwise.training.state import TrainingState

RESULTS = Path(__file__).parent / "results" / "save_speed.json"
VOCAB_SIZE = 8000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", type=Path, help="a folder on the disk to measure")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    rounds = 1 if arguments.rehearse else arguments.rounds
    measurement = Measurement.begin(SAVING)
    weights = dict(Transformer(TransformerConfig(), VOCAB_SIZE).state_dict())
    moments = {
        f"{name}.{moment}": torch.rand_like(weight)
        for name, weight in weights.items()
        for moment in ("exp_avg", "exp_avg_sq")
    }
    moments["updates"] = torch.tensor(1)
    size = sum(each.nbytes for each in [*weights.values(), *moments.values()])
    seconds: dict[str, list[float]] = {}

    def timed(what: str, work: Callable[[], object]) -> None:
        started = time.perf_counter()
        work()
        seconds.setdefault(what, []).append(time.perf_counter() - started)

    with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
        folder = Path(scratch)
        file = folder / "file"
        checkpoints = Checkpoints(folder / "checkpoints", print)
        for step in range(1, rounds + 3):
            state = TrainingState(step=step)
            path = folder / "checkpoints" / f"step-{step:08d}"

            def save(state: TrainingState = state) -> None:
                checkpoints.save(state, weights, moments, corpus="c")

            timed("moments, the library's writer", lambda: save_file(moments, file))
            sync(file)
            file.unlink()
            timed("moments, our writer", lambda: write_tensors(file, moments))
            timed("moments, onto the disk", lambda: sync(file))
            file.unlink()
            timed("a save", save)
            timed("of it, reading back", lambda path=path: verify(path))
            timed("a rotation", lambda: checkpoints.delete_old(2, 1))
    report = {
        "model": f"base, {VOCAB_SIZE} entries",
        "megabytes": round(size / 1e6),
        "rounds": rounds,
        "median seconds": {
            what: round(statistics.median(each[2:]), 2)
            for what, each in seconds.items()
        },
        "peak memory, times the checkpoint": round(
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / size, 2
        ),
    }
    measurement.write(place_of(arguments), report)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
