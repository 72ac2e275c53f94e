"""Measure constituency parsing of the CRAFT treebank: raw words in, trees out.

python benchmarks/parsing.py --corpora FOLDER --work FOLDER [--seeds 1,2,3]
    [--recipe craft-parsing]
python benchmarks/parsing.py --corpora FOLDER --work FOLDER --baselines

The dev part chooses the best checkpoint; the test part is read once for each seed, and
scored by EVALB's rules with the parameters of COLLINS.prm, for all sentences, for those
of up to 40 words, and by length. Trees are without traces, function tags and roots.
Beside it stand two baselines, which ``--baselines`` measures instead: right branching
(every bracket ends at the last word), and a PCFG read off the training part (pcfg.py).
The figures of other recipes (craft-parsing-lstm: the recurrent baseline) are kept.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from pcfg import PCFG, Settings
from result_file import TRAINING, Measurement, place_of
from result_file import write_json as write_result
from trials import (
    add_run,
    add_training_options,
    mean_minutes,
    parse_trial_options,
    recipe_of,
    train_trial,
)

from headwise.cli.prepare_and_train import prepare_corpus
from headwise.cli.translate_and_score import read_parallel
from headwise.data.treebank import read_trees
from headwise.inference.load import load_predictor
from headwise.metrics.bracket_f1 import BracketCounts, bracket_scores
from headwise.metrics.right_branching import right_branching
from headwise.metrics.tree_lines import read_trees_of_lines, scores_by_length
from headwise.storage import write_json
from headwise.text.tree_normalization import normalize_tree
from headwise.text.trees import Tree, escape_brackets, split_words, unescape_brackets

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "parsing.json"
SOURCES = [
    *TRAINING,
    "src/headwise/tasks/**/*",
    "src/headwise/decoding/**/*",
    "src/headwise/text/*tree*.py",
    "src/headwise/metrics/bracket_f1.py",
]
BASELINE_SOURCES = [
    "src/headwise/text/*tree*.py",
    "src/headwise/metrics/*tree*.py",
    "src/headwise/metrics/bracket_f1.py",
    "benchmarks/pcfg.py",
]
FEW = 40
"""Sentences of a rehearsal."""

PCFG_SETTINGS = [
    Settings(horizontal=horizontal, vertical=vertical, smoothing=smoothing, beam=8.0)
    for horizontal, vertical, smoothing in [(2, 1, 1), (2, 2, 1), (2, 2, 4)]
]
"""Grammars, of which dev sentences choose."""

PCFG_DEV = 300
"""Dev sentences of at most ``PCFG_MOST`` words that choose."""

PCFG_MOST = 80
"""Most words of a sentence that the PCFG parses: time and memory grow with n³, n²."""

Table = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--baselines", action="store_true", help="instead of training")
    parser.add_argument("--recipe", default="craft-parsing", metavar="NAME")
    add_training_options(parser)
    arguments = parse_trial_options(parser, RESULTS)
    recipe = recipe_file(arguments.recipe).relative_to(ROOT).as_posix()
    if not (ROOT / recipe).is_file():
        parser.error(f"there is no {recipe}")
    measurement = Measurement.begin(
        BASELINE_SOURCES if arguments.baselines else [*SOURCES, recipe]
    )
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    treebank = arguments.corpora / "treebank-craft"
    words, trees = read_parallel(treebank / "test.mrg.gz", None, task="parsing")
    if arguments.rehearse:
        words, trees = words[:FEW], trees[:FEW]
    if arguments.baselines:
        found = baselines(treebank, words, trees, rehearse=arguments.rehearse)
        found["pcfg"] |= measurement.provenance()
        if place := place_of(arguments):  # what else stands there was measured before
            write_result(place, known | found)
        return
    runs: list[Table] = (
        known.get("recipes", {}).get(arguments.recipe, {}).get("runs", [])
    )
    for seed in arguments.seeds:
        runs = add_run(runs, trial(seed, treebank, words, trees, arguments))
        found = [run["test"] for run in runs]
        figures = {
            **measurement.provenance(),
            "runs": runs,
            "mean_f1": statistics.mean(each["all"]["f1"] for each in found),
            "mean_f1_up_to_40_words": statistics.mean(
                each["up_to_40_words"]["f1"] for each in found
            ),
            **mean_minutes(runs),
            "right_branching": baseline(trees),
            "threads": torch.get_num_threads(),
        }
        if place := place_of(arguments):
            write_figures(place, arguments.recipe, figures)


def recipe_file(name: str) -> Path:
    """Return the file of a recipe of ours."""
    return ROOT / "recipes" / f"{name}.toml"


def write_figures(place: Path, recipe: str, figures: Table) -> None:
    """Write the figures of one recipe, and keep those of others."""
    kept = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    recipes = {**kept.get("recipes", {}), recipe: figures}
    write_json(place, {**kept, "recipes": recipes})


def trial(
    seed: int,
    treebank: Path,
    words: Sequence[str],
    trees: Sequence[str],
    arguments: argparse.Namespace,
) -> Table:
    """Train with one seed, unless that was done; return the scores."""
    folder = arguments.work / f"{arguments.recipe}-{seed}"
    done = folder / "trial.json"
    if done.is_file():
        known: Table = json.loads(done.read_text(encoding="utf-8"))
        return known
    sources = {part: str(treebank / f"{part}.mrg.gz") for part in ("train", "dev")}
    extra: Table = {
        "seed": seed,
        "data": {
            "corpora": [{"source": sources["train"], "join_words": "_"}],
            "dev": {"source": sources["dev"]},
        },
    }
    if arguments.rehearse:
        extra["training"] = {"steps": 4, "validate_every": 2, "validation_pairs": 10}
    file = recipe_file(arguments.recipe)
    recipe = recipe_of(file, extra, folder, arguments.set)
    corpus = prepare_corpus(folder, recipe)
    state, trained = train_trial(folder, recipe, corpus, arguments.device)
    outputs = load_predictor(folder).predict(words)
    figures = {
        "seed": seed,
        "validation": state.best_value,
        "test": scores(*read_trees_of_lines(outputs, trees)),
        **trained,
    }
    print(json.dumps(figures), file=sys.stderr)
    write_json(done, figures)
    return figures


def baseline(trees: Sequence[str]) -> Table:
    """Return the scores of trees whose brackets all end at the last word."""
    _, gold = read_trees_of_lines([""] * len(trees), trees)
    return scores([right_branching(tree.words, tree.tags) for tree in gold], gold)


def baselines(
    treebank: Path, words: Sequence[str], trees: Sequence[str], *, rehearse: bool
) -> Table:
    """Return the scores of right branching and of the PCFG that is best on dev."""
    train, dev = (
        [tree for each in found if (tree := normalize_tree(each)) is not None]
        for found in (
            read_trees(treebank / f"{part}.mrg.gz", join_words="_")
            for part in ("train", "dev")
        )
    )
    few = 4 if rehearse else PCFG_DEV
    dev = [tree for tree in dev if len(tree.words) <= PCFG_MOST][:few]
    dev_words = [[unescape_brackets(word) for word in tree.words] for tree in dev]
    dev_trees = [str(tree) for tree in dev]
    validation = []
    for settings in PCFG_SETTINGS[:1] if rehearse else PCFG_SETTINGS:
        model = PCFG(train[:200] if rehearse else train, settings)
        found = pcfg_scores(model, dev_words, dev_trees)
        validation.append((found["all"]["f1"], settings, model))
        print(json.dumps({"dev": found["all"], **asdict(settings)}), file=sys.stderr)
    _, settings, model = max(validation, key=lambda each: each[0])
    began = time.monotonic()
    test = pcfg_scores(model, [split_words(each) for each in words], trees)
    return {
        "right_branching": baseline(trees),
        "pcfg": {
            "settings": asdict(settings),
            "symbols": len(model.grammar.symbols),
            "rules": len(model.grammar.parents),
            "validation": [{**asdict(each), "f1": f1} for f1, each, _ in validation],
            "validation_sentences": len(dev),
            "test": test,
            "minutes": (time.monotonic() - began) / 60,
        },
    }


def pcfg_scores(
    model: PCFG, sentences: Sequence[Sequence[str]], trees: Sequence[str]
) -> Table:
    """Return the scores; where there is no parse, right branching stands for it."""
    outputs = []
    too_long = not_parsed = 0
    for words in sentences:
        tree = model.parse(words) if len(words) <= PCFG_MOST else None
        too_long += len(words) > PCFG_MOST
        not_parsed += tree is None and len(words) <= PCFG_MOST
        escaped = [escape_brackets(word) for word in words]
        outputs.append(str(tree or right_branching(escaped)))
    return {
        **scores(*read_trees_of_lines(outputs, trees)),
        "too_long": too_long,
        "not_parsed": not_parsed,
    }


def scores(predicted: Sequence[Tree | None], gold: Sequence[Tree]) -> Table:
    """Return the scores of all sentences, of short ones, and by length."""
    found = bracket_scores(predicted, gold)
    by_length = scores_by_length(predicted, gold)
    return {
        "signature": found.score.signature,
        "all": row(found.all),
        "up_to_40_words": row(found.short),
        "by_length": {each.label: row(each.counts) for each in by_length},
    }


def row(counts: BracketCounts) -> Table:
    """Return the scores of some sentences in percent, and how many they are."""
    return {
        "sentences": counts.sentences,
        "skipped": counts.skipped,
        "precision": round(counts.precision, 2),
        "recall": round(counts.recall, 2),
        "f1": round(counts.f1, 2),
        "complete_match": round(counts.exact_match, 2),
    }


if __name__ == "__main__":
    main()
