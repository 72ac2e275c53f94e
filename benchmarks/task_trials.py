"""Trials of tasks without a recipe: what the defaults give, and what is better.

python benchmarks/task_trials.py --corpora FOLDER --work FOLDER --only default \
    --data shakespeare,novel --seeds 1,2

A newcomer's way: one file, ``headwise run FILE --task TASK``, and nothing else. A trial
changes what the command chooses. The measure is taken on examples that stand in no
file of the training; but for the digits, which chose nothing, none of them belongs to a
test set that other scripts report.

shakespeare  language model: the first 80% of tinyshakespeare; the next 10% are held out
novel        language model: a novel, but for its last tenth; the seed chooses which
shelf        language model: five novels, and the last tenths of them
tags         tagging: the words of CRAFT's trees and their parts of speech; the first
             1,000 sentences of its dev part are held out
few_tags     the same, 1,000 sentences
trees        parsing: CRAFT; the first 300 sentences of its dev part of up to 40 words
few_trees    the same, 2,000 trees
digits       pictures: scikit-learn's digits; a fifth is held out, which the seed draws
scenes       captioning: 2,000 of the pictures of ``headwise demo scenes``; those of its
             dev part are held out
answers      dialogue: 1,000 of those of ``headwise demo dialogues``; those of its
             dev part are held out
words        grapheme to phoneme (translation), 3,600 words of the language that the
             seed chooses; its dev words are held out
few_words    the same, 500 words
joined_phones  3,600 words, their phones without spaces, so that they are one word

Measures are bits per byte, the share of tags that are right, F1 of brackets, accuracy,
and the word error rate. Beside taggers stand those of ``tag_baselines.py``. The figures
of trials and seeds that ran before stay in the result file: it is the ledger.
"""

from __future__ import annotations

import argparse
import gzip
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import g2p
import numpy as np
import tag_baselines
from corpus_lines import read_lines
from result_file import TRAINING
from sklearn.datasets import load_digits
from trials import (
    MICRO_BEFORE,
    REHEARSAL,
    computed_once,
    mean_and_deviation,
    run_data_trials,
    run_trial,
)

from headwise.cli.build_recipe import recipe_from_options
from headwise.cli.translate_and_score import read_parallel
from headwise.data.pictures import read_labelled_pictures
from headwise.data.treebank import read_trees
from headwise.inference.predictor import Predictor
from headwise.sample_data.samples import SAMPLES
from headwise.storage import write_text
from headwise.text.trees import Tree

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "task_trials.json"
SOURCES = [*TRAINING, "src/headwise/tasks/**/*", "src/headwise/recipe/*"]
SOURCES += ["src/headwise/sample_data/**/*"]
WHITE = 16
"""The brightest pixel of scikit-learn's digits."""

Table = dict[str, Any]


@dataclass(frozen=True)
class Split:
    """One file of a newcomer, and what is held out of it."""

    task: str
    source: Path
    measure: str
    inputs: Sequence[str]
    references: Sequence[str]
    train: Sequence[tuple[str, str]] = ()
    """What the file holds, if baselines are to learn from it."""


def shakespeare(corpora: Path, folder: Path, seed: int) -> Split:
    text = unpacked(corpora / "tinyshakespeare" / "input.txt.gz")
    first, second = len(text) * 8 // 10, len(text) * 9 // 10
    return documents(folder, [text[:first]], [text[first:second]])


def novel(corpora: Path, folder: Path, seed: int) -> Split:
    return novels(corpora, folder, seed, 1)


def shelf(corpora: Path, folder: Path, seed: int) -> Split:
    return novels(corpora, folder, seed, 5)


def novels(corpora: Path, folder: Path, seed: int, count: int) -> Split:
    """Return so many novels that the seed draws, and their last tenths."""
    books = unpacked(corpora / "gutenberg" / "train.txt.gz").split("\n\n\n")
    drawn = random.Random(seed).sample(books, count)
    ends = [len(book) * 9 // 10 for book in drawn]
    return documents(
        folder,
        [book[:end] for book, end in zip(drawn, ends, strict=True)],
        [book[end:] for book, end in zip(drawn, ends, strict=True)],
    )


def documents(folder: Path, train: Sequence[str], held_out: Sequence[str]) -> Split:
    """Return a language model's text, of which each part is held out as one text."""
    path = folder / "train.txt"
    write_text(path, "\n\n\n".join(train))
    return Split(
        "language_model", path, "bits-per-byte", held_out, [""] * len(held_out)
    )


def tags(corpora: Path, folder: Path, seed: int) -> Split:
    return tagged(corpora, folder, trees_of(corpora, "train"))


def few_tags(corpora: Path, folder: Path, seed: int) -> Split:
    drawn = random.Random(seed).sample(trees_of(corpora, "train"), 1000)
    return tagged(corpora, folder, drawn)


def tagged(corpora: Path, folder: Path, train: Sequence[Tree]) -> Split:
    path = folder / "train.tsv"
    pairs = [words_and_tags(tree) for tree in train]
    write_text(path, "".join("\t".join(pair) + "\n" for pair in pairs))
    held_out = [words_and_tags(tree) for tree in trees_of(corpora, "dev")[:1000]]
    inputs, references = zip(*held_out, strict=True)
    return Split("tagging", path, "tag-accuracy", inputs, references, train=pairs)


def words_and_tags(tree: Tree) -> tuple[str, str]:
    """Return the words of a tree without its traces, and as many tags."""
    pairs = [
        (word, tag)
        for word, tag in zip(tree.words, tree.tags, strict=True)
        if tag != "-NONE-"
    ]
    words, found = zip(*pairs, strict=True)
    return " ".join(words), " ".join(found)


def trees(corpora: Path, folder: Path, seed: int) -> Split:
    return parsed(corpora, folder, trees_of(corpora, "train"))


def few_trees(corpora: Path, folder: Path, seed: int) -> Split:
    drawn = random.Random(seed).sample(trees_of(corpora, "train"), 2000)
    return parsed(corpora, folder, drawn)


def parsed(corpora: Path, folder: Path, train: Sequence[Tree]) -> Split:
    paths = folder / "train.mrg", folder / "dev.mrg"
    for path, found in zip(paths, (train, trees_of(corpora, "dev")), strict=True):
        write_text(path, "".join(f"{tree}\n" for tree in found))
    words, gold = read_parallel(paths[1], None, task="parsing")
    short = [pair for pair in zip(words, gold, strict=True) if pair[0].count(" ") < 40]
    inputs, references = zip(*short[:300], strict=True)
    return Split("parsing", paths[0], "bracket-f1", inputs, references)


def trees_of(corpora: Path, part: str) -> list[Tree]:
    """Return the trees of a part of CRAFT that have words."""
    path = corpora / "treebank-craft" / f"{part}.mrg.gz"
    found = list(read_trees(path, join_words="_"))
    return [tree for tree in found if {*tree.tags} != {"-NONE-"}]


def digits(corpora: Path, folder: Path, seed: int) -> Split:
    images, labels = load_digits(return_X_y=True)
    pixels = (images * 255 / WHITE).round().astype(np.uint8).reshape(-1, 8, 8)
    order = np.random.default_rng(seed).permutation(len(labels))
    held_out, train = np.split(order, [len(order) // 5])
    paths = folder / "train.npz", folder / "test.npz"
    for path, part in zip(paths, (train, held_out), strict=True):
        np.savez(path, images=pixels[part], labels=labels[part])
    inputs, references = read_labelled_pictures(paths[1])
    return Split("picture_classification", paths[0], "accuracy", inputs, references)


def scenes(corpora: Path, folder: Path, seed: int) -> Split:
    files = SAMPLES["scenes"].write(folder / "sample")
    path = folder / "train.npz"
    with np.load(files["train"]) as all_of_them:
        np.savez(path, **{name: each[:2000] for name, each in all_of_them.items()})
    inputs, references = read_parallel(files["dev"], None, task="captioning")
    return Split("captioning", path, "exact-match", inputs, references)


def answers(corpora: Path, folder: Path, seed: int) -> Split:
    files = SAMPLES["dialogues"].write(folder / "sample")
    path = folder / "train.jsonl"
    write_text(path, "".join(f"{line}\n" for line in read_lines(files["train"])[:1000]))
    inputs, references = read_parallel(files["dev"], None, task="dialogue")
    return Split("dialogue", path, "exact-match", inputs, references)


def words(corpora: Path, folder: Path, seed: int) -> Split:
    return pronounced(corpora, folder, seed, 3600)


def few_words(corpora: Path, folder: Path, seed: int) -> Split:
    return pronounced(corpora, folder, seed, 500)


def joined_phones(corpora: Path, folder: Path, seed: int) -> Split:
    return pronounced(corpora, folder, seed, 3600, between="")


def pronounced(
    corpora: Path, folder: Path, seed: int, count: int, *, between: str = " "
) -> Split:
    """Return so many words and their phones, of the language that the seed draws."""
    parts = {
        part: {
            language: [(word, phones.replace(" ", between)) for word, phones in pairs]
            for language, pairs in g2p.read(corpora, part).items()
        }
        for part in ("train", "dev")
    }
    drawn = random.Random(seed)
    language = drawn.choice(sorted(parts["train"]))
    train = drawn.sample(parts["train"][language], count)
    path = g2p.write(train, folder / "train.tsv")
    inputs, references = zip(*parts["dev"][language], strict=True)
    return Split("translation", path, "word-error-rate", inputs, references)


DATA: dict[str, Callable[[Path, Path, int], Split]] = {
    each.__name__: each
    for each in (
        shakespeare,
        novel,
        shelf,
        tags,
        few_tags,
        trees,
        few_trees,
        digits,
        scenes,
        answers,
        words,
        few_words,
        joined_phones,
    )
}
"""Name of a data set -> what writes its file of a seed into a folder."""

TRIALS: dict[str, Table] = {
    "default": {},
    "micro": {"preset": "micro", "training": MICRO_BEFORE},
    "no-weight-decay": {"training": MICRO_BEFORE},
    "weight-decay": {"training": {"weight_decay": 0.3, "on_plateau": "stop"}},
    "default-weight-decay-0.3": {"training": {"weight_decay": 0.3}},
    "cooldown": {"training": {"weight_decay": 0.3, "on_plateau": "cooldown"}},
    "tiny": {"preset": "tiny"},
    "10-minutes": {"training": {"max_minutes": 10}},
    "tiny-10-minutes": {"preset": "tiny", "training": {"max_minutes": 10}},
    "parser": {"preset": "parser"},
    "parser-10-minutes": {"preset": "parser", "training": {"max_minutes": 10}},
    "parser-dropout-10-minutes": {
        "preset": "parser",
        "model": {"dropout": 0.3},
        "training": {"max_minutes": 10},
    },
}
"""Name of a trial -> the preset that it takes, and what it changes in that."""


def main() -> None:
    run_data_trials(
        __doc__, RESULTS, SOURCES, data=DATA, trials=TRIALS, trial=trial, means=means
    )


def trial(
    name: str, trial_name: str, seed: int, arguments: argparse.Namespace
) -> Table:
    """Train with one seed; return the measure of what was held out."""
    data = arguments.work / "data" / f"{name}-{seed}"
    data.mkdir(parents=True, exist_ok=True)
    split = DATA[name](arguments.corpora, data, seed)
    changes = dict(TRIALS[trial_name])
    preset = changes.pop("preset", None)
    changes["seed"] = seed
    if arguments.rehearse:
        changes["training"] = REHEARSAL
    folder = arguments.work / f"{name}-{trial_name}-{seed}"
    recipe = recipe_from_options(
        split.source,
        None,
        task=split.task,
        preset=preset,
        also=changes,
        assignments=arguments.set,
        out=folder,
    )

    def bits_per_byte(model: Predictor) -> dict[str, float]:
        return {"bits-per-byte": mean_bits_per_byte(model, split.inputs)}

    scores_of = bits_per_byte if split.task == "language_model" else None
    held_out = (split.inputs, split.references)
    run = run_trial(folder, recipe, held_out, [split.measure], scores_of)
    if not split.train:
        return run
    pairs = [*zip(split.inputs, split.references, strict=True)]
    others = computed_once(
        data / "baselines.json",
        lambda: tag_baselines.baselines(split.train, pairs),
    )
    return {**run, "baselines": others}


def mean_bits_per_byte(predictor: Predictor, texts: Sequence[str]) -> float:
    """Return the bits for each byte of the texts, each with its end symbol."""
    task: Any = predictor.opened.any_task
    model = predictor.opened.model
    log_p = sum(
        task.log_probabilities(model, tokens, stride=task.context // 2).double().sum()
        for tokens in task.encode(texts)
    )
    return float(-log_p / math.log(2) / sum(len(each.encode()) for each in texts))


def unpacked(path: Path) -> str:
    """Return the text of a file that gzip compressed."""
    return gzip.decompress(path.read_bytes()).decode("utf-8")


def means(runs: Sequence[Table]) -> Table:
    """Return mean and standard deviation of the measure over the seeds."""
    return mean_and_deviation([next(iter(run["test"].values())) for run in runs])


if __name__ == "__main__":
    main()
