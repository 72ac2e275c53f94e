"""Measure picture classification on scikit-learn's digits, beside its SVC.

python benchmarks/digits.py --work FOLDER [--recipe NAME] [--seeds 1,2,3]

Five shuffled folds: each fifth of the 1,797 pictures is the test part once. All others
train the Transformer, of which the last weights are tested, so that there is nothing to
choose; its validation, at the end, is of a tenth of them. They train the SVC as well,
with gamma 0.001 as in scikit-learn's own example. Each fold is learned with each seed;
the accuracy of a seed is its mean over the folds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from result_file import TRAINING, Measurement, place_of
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold
from sklearn.svm import SVC
from trials import mean_minutes, parse_trial_options, recipe_of, run_trial

from headwise.data.pictures import read_labelled_pictures

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "digits.json"
SOURCES = [*TRAINING, "src/headwise/tasks/**/*", "recipes/digits*.toml"]
FOLDS = 5
WHITE = 16

Indices = NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="digits")
    arguments = parse_trial_options(parser, RESULTS)
    measurement = Measurement.begin(SOURCES)
    images, labels = load_digits(return_X_y=True)
    rows: list[dict[str, Any]] = []
    for number, (learned, tested) in enumerate(folds(len(labels)), start=1):
        svc = SVC(gamma=0.001).fit(images[learned], labels[learned])
        right = (svc.predict(images[tested]) == labels[tested]).mean()
        for seed in arguments.seeds:
            figures = trial(number, seed, images, labels, learned, tested, arguments)
            row = {"fold": number, **figures, "svc_accuracy": 100 * float(right)}
            print(json.dumps(row), file=sys.stderr)
            rows.append(row)
        if arguments.rehearse:
            break
    measurement.write(place_of(arguments), {"folds": rows, **means(rows)})


def means(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the accuracy over all folds: of each seed, and its mean and range."""
    by_seed: dict[int, list[float]] = {}
    for row in rows:
        by_seed.setdefault(row["seed"], []).append(row["test"]["accuracy"])
    of_seeds = {seed: statistics.mean(found) for seed, found in by_seed.items()}
    return {
        "accuracy_of_seeds": of_seeds,
        "mean_accuracy": statistics.mean(of_seeds.values()),
        "least": min(of_seeds.values()),
        "most": max(of_seeds.values()),
        "mean_svc_accuracy": statistics.mean(row["svc_accuracy"] for row in rows),
        **mean_minutes(rows),
        "threads": torch.get_num_threads(),
    }


def folds(count: int) -> Iterator[tuple[Indices, Indices]]:
    """Yield the indices to learn from, and those to test on, of each fold."""
    yield from KFold(FOLDS, shuffle=True, random_state=1).split(np.arange(count))


def trial(
    number: int,
    seed: int,
    images: NDArray[np.float64],
    labels: NDArray[np.int64],
    learned: Indices,
    tested: Indices,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Train on a fold with one seed, unless that was done; return the figures.

    What is drawn differs between folds as well as between seeds.
    """
    drawn = number + FOLDS * (seed - 1)
    shuffled = np.random.default_rng(number).permutation(learned)
    dev = shuffled[: len(shuffled) // 10]
    files = {}
    for name, part in (("train", shuffled), ("dev", dev), ("test", tested)):
        files[name] = arguments.work / f"data-{number}" / f"{name}.npz"
        files[name].parent.mkdir(parents=True, exist_ok=True)
        pictures = (images[part] * 255 / WHITE).round().astype(np.uint8)
        named = {"images": pictures.reshape(-1, 8, 8), "labels": labels[part]}
        np.savez(files[name], **named)
    source = {"format": "pictures"}
    extra: dict[str, Any] = {
        "seed": drawn,
        "data": {
            "corpora": [{"source": str(files["train"]), **source}],
            "dev": {"source": str(files["dev"]), **source},
        },
    }
    if arguments.rehearse:
        extra["training"] = {"steps": 20, "validate_every": 10}
    folder = arguments.work / f"{arguments.recipe}-{drawn}"
    recipe = recipe_of(ROOT / "recipes" / f"{arguments.recipe}.toml", extra, folder)
    figures = run_trial(folder, recipe, read_labelled_pictures(files["test"]))
    return {**figures, "seed": seed}


if __name__ == "__main__":
    main()
