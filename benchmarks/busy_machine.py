"""Measure training where other programs have the cores, beside a machine at rest.

python benchmarks/busy_machine.py
python benchmarks/busy_machine.py --only sums --rounds 3

The samples ``sums`` (an encoder alone, whose batches threads share) and ``summaries``
(an encoder-decoder, whose batches processes share) are trained for some updates, with
all threads and with one, on cores that have nothing else to do and beside one busy
program for each core. Every training is a process of its own; they take turns, round
after round. An update is timed by the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from result_file import TRAINING, Measurement, add_options, place_of

RESULTS = Path(__file__).parent / "results" / "busy_machine.json"
SOURCES = [
    *TRAINING,
    "src/headwise/openmp.py",
    "src/headwise/tasks/**/*",
    "src/headwise/sample_data/**/*",
    "src/headwise/cli/demo_sample.py",
]
SAMPLES_TRAINED = ("sums", "summaries")
WARM_UP = 10
"""Updates that are not timed."""

BUSY = "while True: pass"


def measure(sample: str, threads: int, updates: int) -> dict[str, Any]:
    """Train in this process; return the median and the mean of an update in ms."""
    from headwise.cli.demo_sample import sample_recipe
    from headwise.cli.options import use_threads
    from headwise.cli.prepare_and_train import prepare_corpus
    from headwise.run_folder.run import train_run
    from headwise.sample_data.samples import SAMPLES
    from headwise.training.allocator import keep_freed_memory

    keep_freed_memory()
    use_threads(threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = SAMPLES[sample].write(folder / "data")
        training = {"steps": updates, "validate_every": updates, "validation_pairs": 20}
        recipe = sample_recipe(SAMPLES[sample], files, {"training": training})
        train_run(folder / "run", recipe, prepare_corpus(folder / "run", recipe))
        lines = (folder / "run" / "log.jsonl").read_text("utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    timed = [each for each in entries if each["what"] == "update"][WARM_UP:]
    seconds = [each["seconds"] for each in timed]
    return {
        "milliseconds": 1000 * statistics.median(seconds),
        "mean_milliseconds": 1000 * statistics.mean(seconds),
        "tokens_per_second": sum(each["tokens"] for each in timed) / sum(seconds),
    }


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep so many processes busy."""
    programs = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def run(sample: str, threads: int, updates: int) -> dict[str, Any]:
    """Measure in a process of its own."""
    words = ["--measure", sample, "--threads", str(threads), "--updates", str(updates)]
    done = subprocess.run(
        [sys.executable, __file__, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--only", type=names, default=[*SAMPLES_TRAINED])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=80)
    parser.add_argument("--measure", choices=SAMPLES_TRAINED, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.measure:
        found = measure(arguments.measure, arguments.threads, arguments.updates)
        print(json.dumps(found))
        return
    if arguments.rehearse:
        arguments.rounds, arguments.updates = 1, WARM_UP + 5
    measurement = Measurement.begin(SOURCES)
    cores = len(os.sched_getaffinity(0))
    rows: dict[tuple[str, int, bool], list[dict[str, Any]]] = {}
    for _ in range(arguments.rounds):
        for sample in arguments.only:
            for is_busy in (False, True):
                for threads in dict.fromkeys((cores, 1)):
                    with busy_cores(cores * is_busy):
                        found = run(sample, threads, arguments.updates)
                    rows.setdefault((sample, threads, is_busy), []).append(found)
                    print(sample, threads, is_busy, found, file=sys.stderr, flush=True)
    table = [
        {
            "sample": sample,
            "threads": threads,
            "beside_busy_programs": is_busy,
            **{
                name: round(statistics.median(each[name] for each in found), 2)
                for name in found[0]
            },
        }
        for (sample, threads, is_busy), found in rows.items()
    ]
    measurement.write(place_of(arguments), {"rounds": arguments.rounds, "rows": table})
    print(json.dumps(table, indent=2))


if __name__ == "__main__":
    main()
