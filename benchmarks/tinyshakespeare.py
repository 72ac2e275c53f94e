"""Measure language models of characters on Shakespeare (tinyshakespeare).

python benchmarks/tinyshakespeare.py --corpora FOLDER --work FOLDER [--recipe NAME]
python benchmarks/tinyshakespeare.py --corpora FOLDER --work FOLDER \
    --name three-minutes --set training.max_minutes=3
python benchmarks/tinyshakespeare.py --corpora FOLDER --work FOLDER --device cuda \
    --recipe tinyshakespeare --screen --name narrow --set model.d_model=256 --seeds 1

As is usual, the first 90% of the characters train and the last 10% test. ``--screen``
chooses settings: it trains without the last twentieth of the training part, and notes
the loss of that. Otherwise the whole training part trains, and the last
weights are tested, so that the test part is read once for each seed. Two losses of it,
in nats per character: ``windows``, by nanoGPT's protocol (the mean over windows as long
as those of training, each character predicted from those before it in its window; the
first of each has no character before it and does not count), and ``sliding``, where
every character counts and has at least three quarters of a window before it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from result_file import TRAINING, Measurement, place_of
from trials import (
    add_run,
    add_training_options,
    mean_minutes,
    parse_trial_options,
    recipe_of,
    train_trial,
)

from headwise.cli.prepare_and_train import prepare_corpus
from headwise.inference.load import load_predictor
from headwise.storage import write_json, write_text
from headwise.training.allocator import keep_freed_memory

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "tinyshakespeare.json"
SOURCES = [*TRAINING, "src/headwise/tasks/**/*", "recipes/tinyshakespeare*.toml"]
NEVER = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--recipe", default="tinyshakespeare-cpu")
    parser.add_argument("--name", help="of the entry of the results; default: --recipe")
    parser.add_argument("--screen", action="store_true", help="do not read the test")
    add_training_options(parser)
    arguments = parse_trial_options(parser, RESULTS)
    arguments.name = arguments.name or arguments.recipe
    keep_freed_memory()
    measurement = Measurement.begin(SOURCES)
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    files = write(arguments.corpora, arguments.work / "data", arguments.rehearse)
    tables = {name: known.get(name, {}) for name in ("recipes", "screened")}
    table = tables["screened" if arguments.screen else "recipes"]
    for seed in arguments.seeds:
        run = trial(seed, files, arguments)
        print(json.dumps(run), file=sys.stderr)
        runs = add_run(table.get(arguments.name, {}).get("runs", []), run)
        table[arguments.name] = {
            "recipe": arguments.recipe,
            "changes": arguments.set,
            "runs": runs,
            "threads": torch.get_num_threads(),
            "device": arguments.device,
            **{
                f"mean_{name}": statistics.mean(run[name] for run in runs)
                for name in ("validation", "windows", "sliding")
                if name in run
            },
            **mean_minutes(runs),
            **measurement.provenance(),
        }
        measurement.write(place_of(arguments), tables)


def trial(
    seed: int, files: dict[str, Path], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Train with one seed, unless that was done; return the losses."""
    folder = arguments.work / f"{arguments.name}-{seed}"
    done = folder / "trial.json"
    if done.is_file():
        found: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
        return found
    trained = "beginning" if arguments.screen else "train"
    extra: dict[str, Any] = {
        "seed": seed,
        "data": {
            "corpora": [{"source": str(files[trained]), "format": "text"}],
            "dev": {"source": str(files["tail"]), "format": "text"},
        },
        "training": {},
    }
    if not arguments.screen:  # the tail trains, and can choose no checkpoint
        extra["training"]["validate_every"] = NEVER
    if arguments.rehearse:
        extra["training"]["steps"] = 20
    path = ROOT / "recipes" / f"{arguments.recipe}.toml"
    recipe = recipe_of(path, extra, folder, arguments.set)
    corpus = prepare_corpus(folder, recipe)
    state, trained = train_trial(folder, recipe, corpus, arguments.device)
    measured: dict[str, Any]
    if arguments.screen:
        measured = {"validation": state.best_loss}
    else:
        measured = losses(folder, files["test"], arguments.device)
    figures = {
        "seed": seed,
        **measured,
        **trained,
    }
    write_json(done, figures)
    return figures


def losses(folder: Path, test: Path, device: str) -> dict[str, float]:
    """Return both losses of the test part."""
    opened = load_predictor(folder, device=device).opened
    task, model = opened.any_task, opened.model
    (tokens,) = task.encode([test.read_bytes().decode("utf-8")])
    size = task.context
    whole = len(tokens) // size * size
    cut = [
        task.log_probabilities(model, tokens[start : start + size])[1:]
        for start in range(0, whole, size)
    ]
    sliding = task.log_probabilities(model, tokens, stride=size // 4)
    return {
        "windows": -torch.cat(cut).double().mean().item(),
        "sliding": -sliding.double().mean().item(),
    }


def write(corpora: Path, folder: Path, rehearse: bool) -> dict[str, Path]:
    """Write the parts of the text; return their paths."""
    raw = gzip.decompress((corpora / "tinyshakespeare/input.txt.gz").read_bytes())
    text = raw.decode("utf-8")
    if rehearse:
        text = text[:20_000]
    end = int(0.9 * len(text))
    tail = end - end // 20
    parts = {
        "train": text[:end],
        "beginning": text[:tail],
        "tail": text[tail:end],
        "test": text[end:],
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, part in parts.items():
        paths[name] = folder / f"{name}.txt"
        write_text(paths[name], part)
    return paths


if __name__ == "__main__":
    main()
