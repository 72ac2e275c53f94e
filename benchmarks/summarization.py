"""Measure summaries of sentences by ROUGE-L, beside the first words of each.

python benchmarks/summarization.py --corpora FOLDER --work FOLDER [--seeds 1,2,3]

Sentences are those of the CRAFT treebank with its split; their summaries are derived
from their trees (``headwise.sample_data.sentence_compression``), and a model sees words
alone. The dev part chooses the best checkpoint, and of the lead baseline how many
words; the test part is read once for each seed. ROUGE-L is the mean F1 of the
rouge-score package.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from result_file import TRAINING, Measurement, place_of
from rouge_score.rouge_scorer import RougeScorer
from trials import add_run, mean_minutes, parse_trial_options, recipe_of, train_trial

from headwise.cli.prepare_and_train import prepare_corpus
from headwise.data.treebank import read_trees
from headwise.inference.load import load_predictor
from headwise.sample_data.sentence_compression import pairs
from headwise.storage import write_json
from headwise.text.tree_normalization import normalize_tree

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "summarization.json"
SOURCES = [
    *TRAINING,
    "src/headwise/decoding/**/*",
    "recipes/summarization.toml",
    "src/headwise/sample_data/sentence_compression.py",
]
PARTS = ("train", "dev", "test")
FEW = 200
"""Pairs of a rehearsal."""

Pairs = list[tuple[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    arguments = parse_trial_options(parser, RESULTS)
    measurement = Measurement.begin(SOURCES)
    parts = {part: read(arguments.corpora, part) for part in PARTS}
    if arguments.rehearse:
        parts = {part: found[:FEW] for part, found in parts.items()}
    runs = json.loads(RESULTS.read_text())["runs"] if RESULTS.is_file() else []
    for seed in arguments.seeds:
        run = trial(seed, parts, arguments)
        print(json.dumps(run), file=sys.stderr)
        runs = add_run(runs, run)
        found = [run["rouge_l"] for run in runs]
        measurement.write(
            place_of(arguments),
            {
                "pairs": {part: len(each) for part, each in parts.items()},
                "runs": runs,
                "mean_rouge_l": statistics.mean(found),
                "deviation": statistics.stdev(found) if len(found) > 1 else None,
                **mean_minutes(runs),
                "lead": lead(parts),
                "threads": torch.get_num_threads(),
            },
        )


def trial(
    seed: int, parts: dict[str, Pairs], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Train with one seed, unless that was done; return the scores."""
    folder = arguments.work / f"summaries-{seed}"
    done = folder / "trial.json"
    if done.is_file():
        known: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
        return known
    files = {part: arguments.work / "data" / f"{part}.tsv" for part in ("train", "dev")}
    for part, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (f"{sentence}\t{summary}\n" for sentence, summary in parts[part])
        path.write_text("".join(lines), encoding="utf-8")
    extra: dict[str, Any] = {
        "seed": seed,
        "data": {
            "corpora": [{"source": str(files["train"])}],
            "dev": {"source": str(files["dev"])},
        },
    }
    if arguments.rehearse:
        extra["training"] = {"steps": 20, "validate_every": 10}
        extra["text"] = {"vocab_size": 500}
    recipe = recipe_of(ROOT / "recipes" / "summarization.toml", extra, folder)
    corpus = prepare_corpus(folder, recipe)
    state, trained = train_trial(folder, recipe, corpus)
    sentences, summaries = zip(*parts["test"], strict=True)
    outputs = load_predictor(folder).predict(sentences)
    figures = {
        "seed": seed,
        "validation": state.best_value,
        "rouge_l": rouge_l(outputs, summaries),
        "exact_match": 100
        * statistics.mean(a == b for a, b in zip(outputs, summaries, strict=True)),
        **trained,
    }
    write_json(done, figures)
    return figures


def read(corpora: Path, part: str) -> Pairs:
    """Return the sentences of a part of the treebank with their summaries."""
    file = corpora / "treebank-craft" / f"{part}.mrg.gz"
    trees = map(normalize_tree, read_trees(file, join_words="_"))
    return pairs(tree for tree in trees if tree is not None)


def lead(parts: dict[str, Pairs]) -> dict[str, float]:
    """Return the score of the first words, as many as are best on the dev part."""
    longest = 40
    scores = [first_words(parts["dev"], count) for count in range(1, longest)]
    best = 1 + max(range(len(scores)), key=scores.__getitem__)
    return {"words": best, "rouge_l": first_words(parts["test"], best)}


def first_words(examples: Pairs, count: int) -> float:
    """Return ROUGE-L of the first words of each sentence."""
    outputs = [" ".join(sentence.split()[:count]) for sentence, _ in examples]
    return rouge_l(outputs, [summary for _, summary in examples])


def rouge_l(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Return the mean F1 of the longest common subsequence, in percent."""
    scorer = RougeScorer(["rougeL"])
    return 100 * statistics.mean(
        scorer.score(reference, output)["rougeL"].fmeasure
        for output, reference in zip(outputs, references, strict=True)
    )


if __name__ == "__main__":
    main()
