"""Measure how long training takes until translations are good enough.

python benchmarks/time_to_quality.py --corpora FOLDER --work FOLDER

Multi30k, English to German, preset tiny, joint BPE of 8,000: minutes of training until
greedy translations of the validation set reach the target in cased, detokenised
sacreBLEU. headwise goes by its command line (recipes/multi30k-fast.toml); then Hugging
Face's Marian in a usual loop, with the allocator tuned, on the same corpus by the same
recipe.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from rehearsal import SMALL, beginnings
from result_file import TRAINING, Measurement, add_options, place_of
from training import plan

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "multi30k-fast.toml"
RESULTS = ROOT / "benchmarks" / "results" / "time_to_quality.json"
HEADWISE = [sys.executable, "-m", "headwise"]
TARGET = 35.5

Looks = list[dict[str, Any]]


def main() -> None:
    arguments = parsed()
    work = arguments.work.resolve()
    measurement = Measurement.begin([*TRAINING, "recipes/*.toml"])
    if arguments.rehearse:
        arguments.corpora = beginnings(arguments.corpora, work / "beginnings")
        arguments.assignments = [*SMALL, *arguments.assignments]
    assignments = [w for each in arguments.assignments for w in ("--set", each)]
    recipe = ["--recipe", str(arguments.recipe), *assignments]
    corpus = prepare(arguments.corpora / "multi30k", work / "corpus", recipe)
    result: dict[str, Any] = {
        "recipe": arguments.recipe.name,
        "changed": arguments.assignments,
        "target": arguments.target,
        "measure": "BLEU of greedy translations of val, cased, detokenised",
    }
    for name in arguments.only:
        looks = TRAINERS[name](corpus, work, recipe, arguments)
        result[name] = {"reached": reached(looks, arguments.target), "looks": looks}
        print(json.dumps({name: result[name]["reached"]}), file=sys.stderr)
        measurement.write(place_of(arguments), result)


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = ROOT.parent / "shared" / "data"
    corpora = Path(os.environ.get("HEADWISE_CORPORA", default))
    parser.add_argument("--corpora", type=Path, default=corpora)
    parser.add_argument("--work", type=Path, required=True)
    add_options(parser, RESULTS)
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--set", action="append", default=[], dest="assignments")
    parser.add_argument("--target", type=float, default=TARGET)
    parser.add_argument("--only", nargs="+", choices=TRAINERS, default=list(TRAINERS))
    parser.add_argument(
        "--marian-precisions",
        nargs="+",
        choices=("float32", "bf16"),
        default=["float32"],
        help="of the loop around Marian; the first to reach the target counts",
    )
    return parser.parse_args()


def prepare(multi30k: Path, corpus: Path, recipe: list[str]) -> Path:
    """Prepare the corpus by the command line."""
    sides = {
        part: [str(multi30k / f"{part}.{side}.gz") for side in ("en", "de")]
        for part in ("train", "val")
    }
    words = ["prepare", *sides["train"], "--dev", *sides["val"], *recipe]
    subprocess.run([*HEADWISE, *words, "--out", str(corpus)], check=True)
    return corpus


def by_headwise(
    corpus: Path, work: Path, recipe: list[str], arguments: argparse.Namespace
) -> Looks:
    """Train by the command line; read from its log what each validation found."""
    run = work / "headwise-run"
    shutil.rmtree(run, ignore_errors=True)
    command = [*HEADWISE, "train", str(corpus), "--out", str(run), *recipe]
    subprocess.run(command, check=True)
    looks: Looks = []
    seconds, tokens = 0.0, 0
    for line in (run / "log.jsonl").read_text("utf-8").split("\n")[:-1]:
        entry = json.loads(line)
        if entry["what"] == "update":
            seconds += entry["seconds"]
            tokens += entry["tokens"]
        elif entry["what"] == "validation" and entry["name"] == "now":
            looks.append(
                {
                    "step": entry["step"],
                    "loss": round(entry["loss"], 4),
                    "bleu": round(entry["scores"]["bleu"]["value"], 2),
                    "tokens": tokens,
                    "training_seconds": round(seconds, 1),
                    "seconds_with_validations": round(entry["seconds"], 1),
                }
            )
    return looks


def by_marian(
    corpus: Path, work: Path, recipe: list[str], arguments: argparse.Namespace
) -> Looks:
    """Train Marian in each precision; return what the quickest of them found."""
    found = []
    for precision in arguments.marian_precisions:
        words = [str(corpus), *recipe, "--precision", precision]
        words += ["--target", str(arguments.target)]
        done = subprocess.run(
            [sys.executable, "-m", "training.marian_quality", *words],
            env={
                **os.environ,
                **plan.ENVIRONMENTS["tuned"],
                "PYTHONPATH": str(Path(__file__).parent),
            },
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        looks = [json.loads(line) for line in done.stdout.splitlines()]
        found.append([{**look, "precision": precision} for look in looks])
    return min(
        found,
        key=lambda looks: (
            looks[-1]["bleu"] < arguments.target,
            looks[-1]["training_seconds"],
        ),
    )


TRAINERS = {"headwise": by_headwise, "marian": by_marian}


def reached(looks: Looks, target: float) -> dict[str, Any] | None:
    """Return the first look that was good enough, in minutes; None if none was."""
    for look in looks:
        if look["bleu"] >= target:
            minutes = {
                f"{name}_minutes": round(look[f"{key}"] / 60, 2)
                for name, key in (
                    ("training", "training_seconds"),
                    ("whole", "seconds_with_validations"),
                )
            }
            return {**minutes, "tokens": look["tokens"], "bleu": look["bleu"]}
    return None


if __name__ == "__main__":
    main()
