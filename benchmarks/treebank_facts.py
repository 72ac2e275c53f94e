"""Count what treebanks hold, and score the right-branching baseline on them.

python benchmarks/treebank_facts.py --corpora FOLDER

FOLDER holds treebank-craft (gold trees) and treebank-gum (trees of a parser). Trees are
normalised as for training: without traces, function tags and roots. No sentence is
written anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from result_file import Measurement, add_options, place_of

from headwise.data.treebank import read_trees
from headwise.metrics.bracket_f1 import BracketSettings, bracket_scores
from headwise.metrics.right_branching import right_branching
from headwise.text.linearized_trees import linearize
from headwise.text.tree_normalization import normalize_tree
from headwise.text.trees import Tree

RESULTS = Path(__file__).parent / "results" / "treebank_facts.json"
TREEBANKS = {"treebank-craft": ".mrg.gz", "treebank-gum": ".ptb.gz"}
SPLITS = ("train", "dev", "test")
SHORT = BracketSettings().cutoff_length
SOURCES = [
    "src/headwise/text/*tree*.py",
    "src/headwise/metrics/bracket_f1.py",
    "src/headwise/metrics/right_branching.py",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).parents[2] / "shared" / "data"
    corpora = Path(os.environ.get("HEADWISE_CORPORA", default))
    parser.add_argument("--corpora", type=Path, default=corpora)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    measurement = Measurement.begin(SOURCES)
    most = 100 if arguments.rehearse else None
    facts: dict[str, Any] = {}
    for treebank, suffix in TREEBANKS.items():
        splits = {
            split: read(arguments.corpora / treebank / f"{split}{suffix}", most)
            for split in SPLITS
        }
        facts[treebank] = {split: describe(trees) for split, trees in splits.items()}
        facts[treebank]["right_branching"] = baseline(splits["test"])
    measurement.write(place_of(arguments), {"treebanks": facts})
    json.dump(facts, sys.stdout, indent=2)


def read(path: Path, most: int | None) -> list[Tree]:
    """Return the normalised trees of a file, but those of traces only."""
    normal = map(normalize_tree, islice(read_trees(path, join_words="_"), most))
    return [tree for tree in normal if tree is not None]


def describe(trees: Sequence[Tree]) -> dict[str, Any]:
    """Count trees, words, labels, depths and unary chains."""
    words = sorted(len(tree.words) for tree in trees)
    tokens = sum(len(linearize(tree)) for tree in trees)
    labels: Counter[str] = Counter()
    depths, chains = [], Counter[int]()
    for tree in trees:
        depth, chain = measure(tree, labels)
        depths.append(depth)
        chains[chain] += 1
    return {
        "trees": len(trees),
        "words": sum(words),
        "median_words": words[len(words) // 2],
        "most_words": words[-1],
        "share_up_to_40_words": round(sum(n <= SHORT for n in words) / len(words), 4),
        "tokens_a_word": round(tokens / sum(words), 2),
        "phrase_labels": len(labels),
        "commonest_labels": dict(labels.most_common(10)),
        "deepest": max(depths),
        "median_depth": sorted(depths)[len(depths) // 2],
        "trees_by_longest_unary_chain": dict(sorted(chains.items())),
    }


def measure(tree: Tree, labels: Counter[str]) -> tuple[int, int]:
    """Return the phrases around the deepest word, and the longest unary chain."""
    deepest = longest = 0
    around: list[Tree] = []
    chain = 0  # brackets around the same words, as they are closed
    for event, node in tree.walk():
        if event == "open":
            around.append(node)
            labels[node.label] += 1
            deepest = max(deepest, len(around))
        elif event == "close":
            around.pop()
            is_unary = len(node.children) == 1 and not node.subtrees[0].is_preterminal
            chain = chain + 1 if is_unary else 1
            longest = max(longest, chain)
    return deepest, longest


def baseline(trees: Sequence[Tree]) -> dict[str, float]:
    """Score trees whose brackets all end at the last word."""
    guesses = [right_branching(tree.words, tree.tags) for tree in trees]
    found = {}
    for name, labelled in (("labelled", True), ("unlabelled", False)):
        scores = bracket_scores(guesses, trees, BracketSettings(labelled=labelled))
        found[f"{name}_f1"] = round(scores.all.f1, 2)
        found[f"{name}_f1_up_to_40_words"] = round(scores.short.f1, 2)
    return found


if __name__ == "__main__":
    main()
