"""Measure grapheme to phoneme in 15 languages: one model for each, or one for all.

python benchmarks/g2p.py --corpora FOLDER --work FOLDER [--languages ice,hun] [--all]

The data are those of SIGMORPHON 2020, task 1: 3,600 words for training, 450 to choose
and 450 to test of each language. The measure is the word error rate, with the beam
search of the recipe. With ``--all`` one model learns all languages, whose names stand
before the words.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from result_file import TRAINING, Measurement, place_of
from trials import (
    add_run,
    mean_and_deviation,
    mean_minutes,
    parse_trial_options,
    recipe_of,
    train_trial,
)

from headwise.cli.prepare_and_train import prepare_corpus
from headwise.inference.translator import load
from headwise.metrics.registry import measure
from headwise.storage import write_json

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "g2p.json"
SOURCES = [*TRAINING, "src/headwise/decoding/**/*", "recipes/g2p*.toml"]
PARTS = ("train", "dev", "test")
METRICS = ("word-error-rate", "token-error-rate")

PUBLISHED = {
    "source": "Gorman et al. (2020), doi:10.18653/v1/2020.sigmorphon-1.2, Table 4",
    "pair n-gram baseline": 22.00,
    "LSTM baseline": 16.84,
    "Transformer baseline": 17.51,
    "best submission": 13.81,
}
"""Mean word error rates of the shared task on the same test words."""

Words = dict[str, list[tuple[str, str]]]
"""Language -> its words, with their phones."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--languages", type=lambda text: text.split(","))
    parser.add_argument("--all", action="store_true", help="One model for all.")
    arguments = parse_trial_options(parser, RESULTS)
    parts = {part: read(arguments.corpora, part) for part in PARTS}
    languages = arguments.languages or sorted(parts["train"])
    if arguments.rehearse:
        languages = languages[:2]
    measurement = Measurement.begin(SOURCES)
    result: dict[str, Any] = (
        json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    )
    models: dict[str, Any] = result.get("models", {})
    groups = {"all": languages} if arguments.all else {n: [n] for n in languages}
    for name, members in groups.items():
        runs = models.get(name, {}).get("runs", [])
        for seed in arguments.seeds:
            runs = add_run(runs, trial(name, members, seed, parts, arguments))
        errors = [run["mean_word_error_rate"] for run in runs]
        means = {**mean_and_deviation(errors), **mean_minutes(runs)}
        models[name] = {"runs": runs, **means}
        alone = [each["mean"] for key, each in models.items() if key != "all"]
        figures = {
            "threads": torch.get_num_threads(),
            "published": PUBLISHED,
            "models": models,
        }
        if alone:
            figures["mean_of_single_models"] = statistics.mean(alone)
            figures["single_models"] = len(alone)
        measurement.write(place_of(arguments), figures)


def trial(
    name: str,
    languages: Sequence[str],
    seed: int,
    parts: dict[str, Words],
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Train one model with one seed, unless that was done; return error rates."""
    folder = arguments.work / f"{name}-{seed}"
    done = folder / "trial.json"
    if done.is_file():
        found: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
        return found
    tagged = name == "all"
    files = {
        part: write(
            [row for each in languages for row in rows(parts[part], each, tagged)],
            arguments.work / "data" / name / f"{part}.tsv",
        )
        for part in ("train", "dev")
    }
    extra: dict[str, Any] = {
        "seed": seed,
        "data": {
            "corpora": [{"source": str(files["train"])}],
            "dev": {"source": str(files["dev"])},
        },
    }
    if arguments.rehearse:
        extra["training"] = {"steps": 20, "validate_every": 10}
    file = "g2p-all.toml" if tagged else "g2p.toml"
    recipe = recipe_of(ROOT / "recipes" / file, extra, folder)
    corpus = prepare_corpus(folder, recipe)
    state, trained = train_trial(folder, recipe, corpus)
    translator = load(folder)
    errors = {}
    for each in languages:
        words, phones = zip(*rows(parts["test"], each, tagged), strict=True)
        outputs = [best.text for best in translator.lines(words)]
        scores = {metric: measure(metric, outputs, phones).value for metric in METRICS}
        errors[each] = scores
    figures = {
        "seed": seed,
        "validation": state.best_value,
        "errors": errors,
        "mean_word_error_rate": statistics.mean(
            each["word-error-rate"] for each in errors.values()
        ),
        **trained,
    }
    write_json(done, figures)
    print(json.dumps({name: figures["mean_word_error_rate"]}), file=sys.stderr)
    return figures


def rows(words: Words, language: str, tagged: bool) -> list[tuple[str, str]]:
    """Return words and phones of a language, with its name where it is needed."""
    before = f">>{language}<< " if tagged else ""
    return [(f"{before}{word}", phones) for word, phones in words[language]]


def read(corpora: Path, part: str) -> Words:
    """Return the words of each language."""
    path = corpora / "g2p-sigmorphon2020" / f"{part}.tsv.gz"
    text = gzip.decompress(path.read_bytes()).decode("utf-8")
    found: Words = {}
    for line in filter(None, text.split("\n")):
        language, word, phones = line.split("\t")
        found.setdefault(language, []).append((word, phones))
    return found


def write(pairs: Sequence[tuple[str, str]], path: Path) -> Path:
    """Write a table of two columns; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{word}\t{phones}\n" for word, phones in pairs)
    path.write_text(text, encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
