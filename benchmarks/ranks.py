"""Compare two processes of one thread with one process of two threads.

python benchmarks/ranks.py

The same recipe (tiny, two batches an update, the demo's corpus) for some updates,
in turn; the sums of gradients are timed within the two processes.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from result_file import TRAINING, Measurement, add_options, place_of

RESULTS = Path(__file__).parent / "results" / "ranks.json"


def train(corpus: Path, run: Path, updates: int) -> None:
    """Train, and note how long the sums of gradients took."""
    from headwise.data.prepared import PreparedCorpus
    from headwise.recipe import resolve
    from headwise.run_folder.run import train_run
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.distributed import Ranks

    keep_freed_memory()
    summing: list[float] = []
    all_reduce_gradients = Ranks.all_reduce_gradients

    def timed(self, parameters):
        began = time.perf_counter()
        all_reduce_gradients(self, parameters)
        summing.append(time.perf_counter() - began)

    Ranks.all_reduce_gradients = timed
    prepared = PreparedCorpus.open(corpus)
    settings = {
        "steps": updates,
        "batch_tokens": 2048,
        "accumulate": 2,
        "validate_every": updates,
        "validation_pairs": 1,
        "average_last": 1,
    }
    recipe = resolve(
        preset="tiny", extra={**prepared.fields["settings"], "training": settings}
    )
    train_run(run, recipe, prepared)
    if os.environ.get("RANK", "0") == "0":
        (run / "summing.json").write_text(json.dumps(summing))


def measured(run: Path) -> dict[str, float]:
    entries = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    updates = [each for each in entries if each["what"] == "update"][3:]
    summing = json.loads((run / "summing.json").read_text())[3:]
    return {
        "tokens_per_second": sum(each["tokens"] for each in updates)
        / sum(each["seconds"] for each in updates),
        "summing_share": statistics.median(summing)
        / statistics.median(each["seconds"] for each in updates),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    add_options(parser, RESULTS)
    parser.add_argument("--one", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        train(*arguments.one, arguments.updates)
        return
    if arguments.rehearse:
        arguments.updates, arguments.rounds = 8, 1
    measurement = Measurement.begin(TRAINING)
    from headwise.data.prepare import prepare
    from headwise.demo_corpus import write
    from headwise.recipe import resolve

    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        write(scratch / "text")
        sides = {"source": "train.en", "target": "train.fr"}
        files = {side: str(scratch / "text" / name) for side, name in sides.items()}
        made = resolve(preset="tiny", extra={"data": {"corpora": [files]}})
        prepare(made.data, made.text, scratch / "corpus", seed=1)
        found: dict[str, list[dict[str, float]]] = {}
        for number in range(arguments.rounds):
            for ranks in (1, 2):
                run = scratch / f"run-{number}-{ranks}"
                with socket.socket() as one:
                    one.bind(("127.0.0.1", 0))
                    port = str(one.getsockname()[1])
                start = [sys.executable]
                if ranks > 1:
                    start += ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
                    start += ["--master-port", port]
                start += [__file__, "--updates", str(arguments.updates)]
                subprocess.run(
                    [*start, "--one", str(scratch / "corpus"), str(run)],
                    check=True,
                    env={**os.environ, "OMP_NUM_THREADS": str(2 // ranks)},
                )
                found.setdefault(str(ranks), []).append(measured(run))
    facts = {
        f"{ranks} process{'es' if ranks == '2' else ''}": {
            what: round(statistics.median(each[what] for each in rounds), 4)
            for what in rounds[0]
        }
        for ranks, rounds in found.items()
    }
    measurement.write(place_of(arguments), {"rounds": arguments.rounds, **facts})
    print(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()
