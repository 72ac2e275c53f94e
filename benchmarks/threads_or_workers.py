"""Compare the two ways in which cores share a batch that the native backend trains.

python benchmarks/threads_or_workers.py --corpora FOLDER
python benchmarks/threads_or_workers.py --corpora FOLDER --only tiny --busy

Threads of one process, or data-parallel workers with one thread each
(``training.processes``), for as many cores as there are: the preset ``tiny`` on
Multi30k, and samples of other tasks with the same batches of 4,096 target tokens. Every
training is a process of its own; they take turns, round after round, on idle cores or,
with ``--busy``, beside one busy program for each core. Told are milliseconds of an
update by the clock, seconds of the training with its start and a validation, and the
memory of all processes together.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from busy_machine import busy_cores
from corpus_lines import read_lines
from process_memory import run_watched
from result_file import TRAINING, Measurement, add_options, place_of

RESULTS = Path(__file__).parent / "results" / "threads_or_workers.json"
SOURCES = [
    *TRAINING,
    "src/headwise/openmp.py",
    "src/headwise/tasks/**/*",
    "src/headwise/sample_data/**/*",
]
SAMPLES_TRAINED = ("summaries", "dialogues", "reviews", "scenes", "moving-shapes")
CASES = ("tiny", *SAMPLES_TRAINED)
WARM_UP = 10
"""Updates that are not timed."""

Table = dict[str, Any]


def prepare(case: str, corpora: Path, folder: Path, table: Table) -> Any:
    """Prepare a corpus in ``folder``; return the recipe that trains on it."""
    from headwise.cli.demo_sample import sample_recipe
    from headwise.cli.prepare_and_train import prepare_corpus
    from headwise.recipe import resolve
    from headwise.sample_data.samples import SAMPLES
    from headwise.settings import merged

    if case == "tiny":
        table = merged(multi30k(corpora, folder), table)
        recipe = resolve(preset="tiny", extra=table)
    else:
        files = SAMPLES[case].write(folder / "data")
        recipe = sample_recipe(SAMPLES[case], files, table)
    return recipe, prepare_corpus(folder / "run", recipe)


def multi30k(corpora: Path, folder: Path) -> Table:
    """Write English and German captions; return the recipe's table of them."""
    files = {}
    for part in ("train", "val"):
        for side, language in (("source", "en"), ("target", "de")):
            lines = read_lines(corpora / "multi30k" / f"{part}.{language}")
            path = folder / f"{part}.{language}"
            path.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")
            files[part, side] = str(path)
    return {
        "data": {
            "corpora": [{side: files["train", side] for side in ("source", "target")}],
            "dev": {side: files["val", side] for side in ("source", "target")},
        },
    }


def measure(case: str, corpora: Path, processes: int, updates: int) -> Table:
    """Train in this process; return how long an update and all of it took."""
    from headwise.run_folder.run import train_run
    from headwise.training.allocator import keep_freed_memory

    keep_freed_memory()
    training = {
        "steps": updates,
        "batch_tokens": 4096,
        "validate_every": updates,
        "validation_pairs": 20,
        "processes": processes,
        "precision": "float32",
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipe, corpus = prepare(case, corpora, folder, {"training": training})
        run = folder / "run"
        started = time.perf_counter()
        train_run(run, recipe, corpus)
        whole = time.perf_counter() - started
        lines = (run / "log.jsonl").read_text("utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    seconds = [each["seconds"] for each in entries if each["what"] == "update"]
    median = statistics.median(seconds[WARM_UP:])
    return {"milliseconds": 1000 * median, "whole_seconds": whole}


def run(case: str, processes: int, arguments: argparse.Namespace) -> Table:
    """Measure in a process of its own; return what it tells, and its memory."""
    words = ["--measure", case, "--processes", str(processes)]
    words += ["--corpora", str(arguments.corpora), "--updates", str(arguments.updates)]
    said, watch = run_watched([sys.executable, __file__, *words])
    return {**json.loads(said[-1]), "memory_mib": watch.peak / 2**20}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, required=True)
    names = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--only", type=names, default=[*CASES])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--measure", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, help=argparse.SUPPRESS)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.measure:
        found = measure(
            arguments.measure,
            arguments.corpora,
            arguments.processes,
            arguments.updates,
        )
        print(json.dumps(found))
        return
    if arguments.rehearse:
        arguments.rounds, arguments.updates = 1, WARM_UP + 2
    measurement = Measurement.begin(SOURCES)
    cores = len(os.sched_getaffinity(0))
    rows = []
    for case in arguments.only:
        ways: dict[int, list[Table]] = {1: [], cores: []}
        for number in range(arguments.rounds):
            for processes in sorted(ways, reverse=number % 2 == 1):
                with busy_cores(cores * arguments.busy):
                    found = run(case, processes, arguments)
                ways[processes].append(found)
                print(case, processes, found, file=sys.stderr, flush=True)
        rows.append({"case": case, **compared(ways[1], ways[cores])})
    result = {
        "rounds": arguments.rounds,
        "cores": cores,
        "beside_busy_programs": arguments.busy,
        "cases": rows,
    }
    measurement.write(place_of(arguments), result)
    print(json.dumps(rows, indent=2))


def compared(threads: list[Table], workers: list[Table]) -> Table:
    """Return the medians of both, and the speed of threads in that of workers."""
    row: Table = {}
    for name, found in (("threads", threads), ("workers", workers)):
        row[name] = {
            key: round(statistics.median(each[key] for each in found), 1)
            for key in found[0]
        }
        row[name]["all_milliseconds"] = [round(x["milliseconds"], 1) for x in found]
    ratio = row["workers"]["milliseconds"] / row["threads"]["milliseconds"]
    return {**row, "speed_of_threads": round(ratio, 2)}


if __name__ == "__main__":
    main()
