"""Train and measure on real corpora by the command line, as a user would.

python benchmarks/real_data.py multi30k --corpora FOLDER --work FOLDER
python benchmarks/real_data.py multi30k_defaults --corpora FOLDER … --max-time 30m
python benchmarks/real_data.py tatoeba  --corpora FOLDER --work FOLDER --max-time 30m

``multi30k_defaults`` has no recipe, as a newcomer has none. Each writes
benchmarks/results/TASK.json and the curves of its run as a picture in docs/notebook/.
The corpora themselves are not part of the project.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
from process_memory import Watch
from rehearsal import SMALL, beginnings
from result_file import (
    RESULTS,
    TRAINING,
    TRANSLATION,
    Measurement,
    add_options,
    place_of,
)

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[1]
HEADWISE = [sys.executable, "-m", "headwise"]


def multi30k(corpora: Path, work: Path) -> dict[str, Any]:
    """Name the files of Multi30k, English to German."""
    folder = corpora / "multi30k"
    return {
        "recipe": "multi30k",
        "arguments": [folder / "train.en.gz", folder / "train.de.gz"],
        "dev": [folder / "val.en.gz", folder / "val.de.gz"],
        "tests": {
            name: [folder / f"{name}.en.gz", folder / f"{name}.de.gz"]
            for name in ("test_2016_flickr", "test_2017_flickr")
        },
        "evaluate": ["--beam", "5", "--language", "de"],
    }


def multi30k_defaults(corpora: Path, work: Path) -> dict[str, Any]:
    """Name the same files, to train on without a recipe, as a newcomer does."""
    task = multi30k(corpora, work)
    return {**task, "recipe": None, "evaluate": ["--language", "de"]}


def tatoeba(corpora: Path, work: Path) -> dict[str, Any]:
    """Name the files of Tatoeba, English to French; TSV is split for evaluation."""
    folder = corpora / "tatoeba-en-fr"
    return {
        "recipe": "tatoeba-en-fr",
        "arguments": [folder / "train.tsv.gz"],
        "dev": split_columns(folder / "dev.tsv", work / "dev", (0, 1)),
        "tests": {"test": split_columns(folder / "test.tsv", work / "test", (0, 1))},
        "evaluate": ["--beam", "5"],
    }


TASKS = {
    "multi30k": multi30k,
    "multi30k_defaults": multi30k_defaults,
    "tatoeba": tatoeba,
}


def split_columns(table: Path, stem: Path, columns: tuple[int, int]) -> list[Path]:
    """Write two columns of a TSV as two files; return their paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(".source"), stem.with_suffix(".target")]
    opened = gzip.open if table.suffix == ".gz" else open
    with opened(table, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    for path, column in zip(paths, columns, strict=True):
        path.write_text("".join(row[column] + "\n" for row in rows), "utf-8")
    return paths


def run(command: list[str]) -> tuple[str, float, int]:
    """Run a command to its end; return its output, its seconds and its memory."""
    print("$", shlex.join(command), file=sys.stderr)
    started = time.monotonic()
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        Watch(process.pid, every=1.0) as watch,  # seldom: it is timed, too
    ):
        assert process.stdout is not None
        said = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"it ended with status {process.returncode}")
    return said, time.monotonic() - started, watch.peak


def of_the_command(seconds: float, peak: int) -> dict[str, Any]:
    """Return the time and memory of a command that trained without interruption."""
    return {"wall_seconds": round(seconds, 1), "peak_memory_mib": round(peak / 2**20)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--max-time", default=None)
    parser.add_argument("--set", action="append", default=[], dest="assignments")
    add_options(parser, RESULTS / "TASK.json")
    arguments = parser.parse_args()
    arguments.default_out = RESULTS / f"{arguments.task}.json"
    measurement = Measurement.begin([*TRAINING, *TRANSLATION, "recipes/*.toml"])
    if arguments.rehearse:
        arguments.corpora = beginnings(arguments.corpora, arguments.work / "beginnings")
        arguments.assignments = [*SMALL, *arguments.assignments]

    task = TASKS[arguments.task](arguments.corpora, arguments.work)
    out = arguments.work / "run"
    options = ["--out", out]
    if task["recipe"]:
        options += ["--recipe", ROOT / "recipes" / f"{task['recipe']}.toml"]
    if arguments.max_time:
        options += ["--max-time", arguments.max_time]
    for assignment in arguments.assignments:
        options += ["--set", assignment]
    words = ["run", *task["arguments"], "--dev", *task["dev"], *options]
    _, seconds, peak = run([*HEADWISE, *map(str, words)])

    log = [json.loads(line) for line in (out / "log.jsonl").open(encoding="utf-8")]
    updates = [entry for entry in log if entry["what"] == "update"]
    validations = [entry for entry in log if entry["what"] == "validation"]
    starts = sum(entry["what"] == "start" for entry in log)
    scores = {
        name: json.loads(
            run(
                [
                    *HEADWISE,
                    "evaluate",
                    str(out),
                    *map(str, files),
                    "--json",
                    *task["evaluate"],
                ]
            )[0]
        )
        for name, files in task["tests"].items()
    }
    result = {
        "headwise": shlex.join(
            [word if isinstance(word, str) else word.name for word in words]
        ),
        "starts": starts,
        **(of_the_command(seconds, peak) if starts == 1 else {}),
        "training_seconds": round(validations[-1]["seconds"], 1),
        "updates": updates[-1]["step"],
        "tokens": sum(update["tokens"] for update in updates),
        "tokens_per_second_median": round(
            statistics.median(each["tokens"] / each["seconds"] for each in updates)
        ),
        "test": scores,
        "validations": [
            {
                "step": entry["step"],
                "name": entry["name"],
                "seconds": round(entry["seconds"], 1),
                "loss": round(entry["loss"], 4),
                "best": entry["best"],
                **{
                    key: round(score["value"], 2)
                    for key, score in entry["scores"].items()
                },
            }
            for entry in validations
        ],
    }
    path = place_of(arguments)
    measurement.write(path, result)
    pictures = ROOT / "docs" / "notebook" if path else arguments.work
    picture = pictures / f"{arguments.task}.png"
    draw(arguments.task, updates, validations, picture)
    print(path, picture, file=sys.stderr)


def draw(
    task: str,
    updates: list[dict[str, Any]],
    validations: list[dict[str, Any]],
    path: Path,
) -> None:
    """Draw losses, and what validation measured, over the minutes of training."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    minutes = []
    spent = 0.0
    for update in updates:
        spent += update["seconds"] / 60
        minutes.append(spent)
    losses = [update["loss"] for update in updates]
    smooth = [
        statistics.fmean(losses[max(0, index - 25) : index + 1])
        for index in range(len(losses))
    ]
    left.plot(minutes, smooth, lw=1, label="training, smoothed labels")
    looked = [each for each in validations if each["name"] == "now"]
    when = [each["seconds"] / 60 for each in looked]
    left.plot(when, [each["loss"] for each in looked], "o-", ms=3, label="held out")
    left.set(xlabel="minutes of training", ylabel="loss, nats a token")
    left.legend()
    for name in looked[0]["scores"]:
        values = [each["scores"][name]["value"] for each in looked]
        right.plot(when, values, "o-", ms=3, label=f"{name}, held out, greedy")
    for each in validations:
        if each["name"] != "now":
            for score in each["scores"].values():
                right.plot(each["seconds"] / 60, score["value"], "k*", ms=9)
                right.annotate(
                    f"mean of checkpoints: {score['value']:.1f}",
                    (each["seconds"] / 60, score["value"]),
                    textcoords="offset points",
                    xytext=(-6, 6),
                    ha="right",
                    fontsize=8,
                )
    right.set(xlabel="minutes of training")
    right.legend()
    figure.suptitle(task)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
