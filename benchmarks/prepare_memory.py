"""Measure that memory does not grow with the corpus: ten times the lines, same peak.

    .venv/bin/python benchmarks/prepare_memory.py

Makes two corpora of made-up words, prepares each and runs through one epoch of batches,
both in processes of their own, and writes the peaks of resident memory to
benchmarks/results/prepare_memory.json.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from result_file import Measurement, add_options, place_of

# Only the children import headwise: what a parent held counts as a child's peak, too.
RESULTS = Path(__file__).parent / "results" / "prepare_memory.json"
SAMPLE_PAIRS = 100_000
VOCAB_SIZE = 4000
BATCH_TOKENS = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+")
    add_options(parser, RESULTS)
    parser.add_argument("--task", choices=TASKS, help="used by the script itself")
    parser.add_argument("--folder", type=Path, help="used by the script itself")
    arguments = parser.parse_args()
    if arguments.task:
        TASKS[arguments.task](arguments.folder, arguments.lines[0])
        return
    usual = [3_000, 30_000] if arguments.rehearse else [300_000, 3_000_000]
    measurement = Measurement.begin(["src/headwise/data/*", "src/headwise/text/**/*"])
    rows = [measured(lines) for lines in sorted(arguments.lines or usual)]
    growth = {
        task: rows[-1][task]["peak_mib"] / rows[0][task]["peak_mib"] - 1
        for task in ("prepare", "epoch")
    }
    report = {
        "settings": {
            "tokenizer": "bpe",
            "vocab_size": VOCAB_SIZE,
            "sample_pairs": SAMPLE_PAIRS,
            "batch_tokens": BATCH_TOKENS,
        },
        "corpora": rows,
        "growth_of_peak": {task: round(share, 4) for task, share in growth.items()},
    }
    measurement.write(place_of(arguments), report)
    print(json.dumps(report, indent=2))


def measured(lines: int) -> dict[str, object]:
    """Make a corpus of ``lines`` and return what each task took for it."""
    with tempfile.TemporaryDirectory() as name:
        row: dict[str, object] = {"lines": lines}
        for task in TASKS:
            command = [sys.executable, __file__, "--task", task]
            command += ["--folder", name, "--lines", str(lines)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            if done.stdout:
                row[task] = json.loads(done.stdout)
                print(lines, task, row[task], file=sys.stderr)
        row["text_mib"] = mib(
            sum((Path(name) / side).stat().st_size for side in ("source", "target"))
        )
        return row


def make_text(folder: Path, lines: int) -> None:
    chance = random.Random(1)
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
    words = ["".join(chance.choices(syllables, k=3)) for _ in range(5000)]
    with (
        (folder / "source").open("w") as source,
        (folder / "target").open("w") as target,
    ):
        for _ in range(lines):
            sentence = chance.choices(words, k=chance.randint(3, 12))
            source.write(" ".join(sentence) + "\n")
            target.write(" ".join(reversed(sentence)).upper() + "\n")


def prepare_corpus(folder: Path, lines: int) -> None:
    from headwise.data.prepare import prepare
    from headwise.data.settings import CorpusSettings, DataSettings
    from headwise.text.settings import TextSettings

    corpus = CorpusSettings(
        source=str(folder / "source"), target=str(folder / "target")
    )
    started = Usage()
    prepare(
        DataSettings(corpora=(corpus,)),
        TextSettings(vocab_size=VOCAB_SIZE, sample_pairs=SAMPLE_PAIRS),
        folder / "prepared",
        seed=1,
    )
    started.report(pairs=lines)


def run_epoch(folder: Path, lines: int) -> None:
    from headwise.data.batches import TrainingOrder
    from headwise.data.prepared import PreparedCorpus

    started = Usage()
    corpus = PreparedCorpus.open(folder / "prepared")
    order = TrainingOrder(corpus.train, seed=1, batch_tokens=BATCH_TOKENS)
    rows = sum(len(batch.indices) for batch in order.batches(0))
    assert rows == corpus.facts.train.pairs
    started.report(pairs=rows, batches=order.num_batches(0))


TASKS = {"text": make_text, "prepare": prepare_corpus, "epoch": run_epoch}


class Usage:
    """Time and memory since the imports were done."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.before = peak()

    def report(self, **facts: int) -> None:
        """Print what was used, and ``facts``, for the parent process."""
        seconds = round(time.perf_counter() - self.started, 1)
        facts |= {"peak_mib": peak(), "peak_after_imports_mib": self.before}
        print(json.dumps({"seconds": seconds, **facts}))


def peak() -> int:
    return mib(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def mib(num_bytes: int) -> int:
    return round(num_bytes / 2**20)


if __name__ == "__main__":
    main()
