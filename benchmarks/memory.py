"""Measure how near the memory that was predicted lies to the memory that was taken.

    .venv/bin/python benchmarks/memory.py

For each configuration, one process predicts as ``headwise train --dry-run`` does, and
another trains for a few updates with two validations, checkpoints and their mean. What
that one and the processes it starts hold together is looked at from outside, shared
memory once (process_memory.py); what the first of them held at most is told beside it.
Both on a CPU, on a made-up corpus. Results go to benchmarks/results/memory.json.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from process_memory import Watch, run_watched
from result_file import TRAINING, Measurement, add_options, place_of

RESULTS = Path(__file__).parent / "results" / "memory.json"

UPDATES = 4
COMMON = {
    "training.steps": UPDATES,
    "training.validate_every": UPDATES // 2,
    "training.validation_pairs": 200,
    "training.average_last": 3,
}
CONFIGURATIONS = [
    ("tiny", 512, {}),
    ("tiny", 4096, {}),
    ("tiny", 4096, {"training.ema_decay": 0.99}),
    ("tiny", 16384, {}),
    ("tiny", 16384, {"training.activation_checkpointing": "true"}),
    ("small", 2048, {}),
    ("small", 4096, {"training.accumulate": 2}),
    ("small", 8192, {"training.activation_checkpointing": "true"}),
    ("base", 1024, {}),
    ("base", 2048, {}),
    ("base", 4096, {"training.activation_checkpointing": "true"}),
]
"""Preset, tokens of a batch, and what else is set."""

VOCABULARY = {"tiny": 8000, "small": 8000, "base": 32_000}
PAIRS = 12_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="presets to measure, such as tiny")
    add_options(parser, RESULTS)
    parser.add_argument("--task", choices=TASKS, help="used by the script itself")
    parser.add_argument("--folder", type=Path, help="used by the script itself")
    parser.add_argument("--recipe", help="used by the script itself")
    arguments = parser.parse_args()
    if arguments.task:
        TASKS[arguments.task](arguments.folder, json.loads(arguments.recipe))
        return
    measurement = Measurement.begin(
        [*TRAINING, "src/headwise/cli/batch_size.py", "src/headwise/run_folder/*"]
    )
    configurations, pairs, common = CONFIGURATIONS, PAIRS, COMMON
    if arguments.rehearse:
        configurations, pairs = CONFIGURATIONS[1:2], 2_000
        common = COMMON | {"training.validation_pairs": 20}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in sorted({VOCABULARY[preset] for preset, *_ in configurations}):
            in_a_process("prepare", folder, {"vocab_size": size, "pairs": pairs})
        for number, (preset, batch_tokens, more) in enumerate(configurations):
            if arguments.only and preset not in arguments.only:
                continue
            recipe = {
                "preset": preset,
                "vocab_size": VOCABULARY[preset],
                "run": f"run-{number}",
                "settings": {**common, "training.batch_tokens": batch_tokens, **more},
            }
            predicted, _ = in_a_process("predict", folder, recipe)
            first, watch = in_a_process("train", folder, recipe)
            row = {
                "preset": preset,
                "batch_tokens": batch_tokens,
                **{key.removeprefix("training."): value for key, value in more.items()},
                "predicted_mib": round(predicted / 2**20),
                "measured_mib": round(watch.peak / 2**20),
                "processes": sum(size > 2**20 for size in watch.processes.values()),
                "first_process_mib": round(first / 2**20),
                "ratio": round(predicted / watch.peak, 3),
            }
            print(row, file=sys.stderr)
            rows.append(row)
    report = {
        "configurations": rows,
        "worst_error": max(abs(row["ratio"] - 1) for row in rows),
    }
    measurement.write(place_of(arguments), report)
    print(json.dumps(report, indent=2))


def in_a_process(task: str, folder: Path, recipe: dict) -> tuple[int, Watch]:
    """Do ``task`` in a fresh process; return what it says at last, and its memory."""
    command = [sys.executable, __file__, "--task", task, "--folder", str(folder)]
    said, watch = run_watched([*command, "--recipe", json.dumps(recipe)])
    return int(said[-1]), watch


def prepare_corpus(folder: Path, recipe: dict) -> None:
    from headwise.data.prepare import prepare
    from headwise.data.settings import CorpusSettings, DataSettings
    from headwise.text.settings import TextSettings

    chance = random.Random(1)
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
    words = ["".join(chance.choices(syllables, k=3)) for _ in range(9000)]
    source, target = folder / "source", folder / "target"
    with source.open("w") as one, target.open("w") as other:
        for _ in range(recipe["pairs"]):
            length = min(60, max(2, int(chance.lognormvariate(2.7, 0.6))))
            sentence = chance.choices(words, k=length)
            one.write(" ".join(sentence) + "\n")
            other.write(" ".join(reversed(sentence)).upper() + "\n")
    corpus = CorpusSettings(source=str(source), target=str(target))
    size = recipe["vocab_size"]
    prepare(
        DataSettings(corpora=(corpus,), dev_pairs=500),
        TextSettings(vocab_size=size),
        folder / f"corpus-{size}",
        seed=1,
    )
    print(0)


def opened(folder: Path, recipe: dict):
    from headwise.data.prepared import PreparedCorpus
    from headwise.recipe import resolve

    corpus = PreparedCorpus.open(folder / f"corpus-{recipe['vocab_size']}")
    made = corpus.fields["settings"]
    assignments = [f"{name}={value}" for name, value in recipe["settings"].items()]
    extra = {"data": made["data"], "text": made["text"]}
    chosen = resolve(preset=recipe["preset"], extra=extra, assignments=assignments)
    return chosen, corpus


def predict(folder: Path, recipe: dict) -> None:
    from headwise.cli.batch_size import new_memory_estimator

    print(new_memory_estimator(*opened(folder, recipe), "cpu").estimate().peak)


def train(folder: Path, recipe: dict) -> None:
    from headwise.cli.prepare_and_train import train_model

    train_model(folder / recipe["run"], *opened(folder, recipe), "cpu")
    status = Path("/proc/self/status").read_text()
    (peak,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    print(1024 * int(peak.split()[1]))


TASKS = {"prepare": prepare_corpus, "predict": predict, "train": train}


if __name__ == "__main__":
    main()
