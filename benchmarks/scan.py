"""Measure how well commands are turned into actions (SCAN), on four splits.

python benchmarks/scan.py --corpora FOLDER --work FOLDER [--only simple] [--seeds 1,2,3]

A twentieth of the training commands, drawn by their hash, chooses the best checkpoint;
the test commands are read once for each seed. ``--recipe`` names another recipe, whose
figures stand beside those of the first. With ``--augment`` the other training commands
are joined by those that are made of them: by their lexical symmetries
(:mod:`lexical_symmetry`), or by putting known parts together (:mod:`recombination`);
how many of the test commands are among them stands beside the figures.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from corpus_lines import read_lines
from lexical_symmetry import augmented
from recombination import recombined
from result_file import TRAINING, Measurement, place_of
from trials import add_run, parse_trial_options, recipe_of, run_trial, summary

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "scan.json"
SOURCES = [*TRAINING, "src/headwise/decoding/**/*", "recipes/scan*.toml"]
SOURCES += ["benchmarks/lexical_symmetry.py", "benchmarks/recombination.py"]
SPLITS = {
    "simple": "simple",
    "turn-left": "addprim_turn_left",
    "jump": "addprim_jump",
    "length": "length",
}
"""Name of a split -> the end of its files' names."""

AUGMENTATIONS = {"symmetries": augmented, "recombination": recombined}

HELD_OUT = 20
"""One in so many training commands chooses the best checkpoint."""

Pairs = list[tuple[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*SPLITS])
    parser.add_argument("--recipe", default="scan")
    parser.add_argument("--augment", choices=AUGMENTATIONS)
    arguments = parse_trial_options(parser, RESULTS)
    measurement = Measurement.begin(SOURCES)
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    recipes: dict[str, Any] = known.get("recipes", {})
    for split in arguments.only:
        splits = recipes.setdefault(name_of(arguments), {})
        for seed in arguments.seeds:
            run = trial(split, seed, arguments)
            runs = add_run(splits.get(split, {}).get("runs", []), run)
            splits[split] = {"runs": runs, **summary(runs)}
            measurement.write(
                place_of(arguments),
                {"threads": torch.get_num_threads(), "recipes": recipes},
            )


def name_of(arguments: argparse.Namespace) -> str:
    """Return the name of the recipe, and what is added to it."""
    return "-".join(filter(None, (arguments.recipe, arguments.augment)))


def trial(split: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train on one split with one seed; return the figures."""
    train = read(arguments.corpora / "scan", "train", split)
    test = read(arguments.corpora / "scan", "test", split)
    if arguments.rehearse:
        train, test = train[:500], test[:20]
    name = f"{name_of(arguments)}-{split}"
    data = arguments.work / "data" / name
    parts = {
        "train": [pair for pair in train if not is_held_out(pair[0])],
        "dev": [pair for pair in train if is_held_out(pair[0])],
    }
    if arguments.augment:
        held_out = [command for command, _ in parts["dev"]]
        augment = AUGMENTATIONS[arguments.augment]
        parts["train"] = augment(parts["train"], without=held_out)
    files = {name: write(pairs, data / f"{name}.tsv") for name, pairs in parts.items()}
    extra: dict[str, Any] = {
        "seed": seed,
        "data": {
            "corpora": [{"source": str(files["train"])}],
            "dev": {"source": str(files["dev"])},
        },
    }
    if arguments.rehearse:
        extra["training"] = {"steps": 20, "validate_every": 10}
    folder = arguments.work / f"{name}-{seed}"
    recipe = recipe_of(ROOT / "recipes" / f"{arguments.recipe}.toml", extra, folder)
    commands, actions = zip(*test, strict=True)
    found = run_trial(folder, recipe, (commands, actions), ["exact-match"])
    found["test_in_training"] = len({*test} & {*parts["train"]})
    print(json.dumps({split: found}), file=sys.stderr)
    return found


def is_held_out(command: str) -> bool:
    """Tell whether a training command chooses checkpoints, by its hash.

    Those of one action never do: some splits have no other command with it.
    """
    if len(command.split()) <= 2:
        return False
    return hashlib.sha256(command.encode()).digest()[0] % HELD_OUT == 0


def read(folder: Path, part: str, split: str) -> Pairs:
    """Return the commands of a file with their actions."""
    path = folder / f"tasks_{part}_{SPLITS[split]}.txt"
    return [pair_of(line) for line in read_lines(path) if line]


def pair_of(line: str) -> tuple[str, str]:
    """Return command and actions of ``IN: … OUT: …``."""
    command, actions = line.removeprefix("IN: ").split(" OUT: ")
    return command.strip(), actions.strip()


def write(pairs: Iterable[tuple[str, str]], path: Path) -> Path:
    """Write a table of two columns; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    path.write_text(text, encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
