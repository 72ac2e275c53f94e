"""Trials of text classification: what the defaults give, and what is better.

python benchmarks/classification_trials.py --corpora FOLDER --work FOLDER \
    --only default --data reviews,sentences --seeds 1,2,3

A newcomer's way: one table of texts and labels, no recipe, no validation set, which
``headwise run`` splits off. A trial changes the preset that it chooses by the number of
texts. Accuracy, or correlation, is that of texts which stand in no table:

reviews    film reviews of about 750 words, of two classes; a fold of 200 is held out;
           the seed chooses it
sentences  sentences of film reviews, of two classes; a fold likewise, of 1,066
few        the same, but 500 of the sentences train
treebank   whole sentences of the Stanford Sentiment Treebank, of two classes; its dev
           sentences are held out
phrases    all phrases of the same, in lower case, held out likewise
books      paragraphs of 15 novels, 200 of each; the novel is the label; 40 of the last
           tenth of each are held out
languages  sentences in English, French or German, 2,000 of each; 500 held out
grades     sentences of the treebank with grades from 0 to 4, as numbers (regression, of
           which the correlation is measured); the dev sentences are held out

Beside the trials stand Naive Bayes and two SVMs, as of ``sentiment.py``. That script
reports the mean of all ten folds, so folds that chose settings here are among them;
SST's test sentences are not read. The figures of trials and seeds that ran before stay
in the result file: it is the ledger.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from result_file import TRAINING
from review_texts import read, read_text
from sentiment import (
    Examples,
    baselines_of,
    folds,
    labelled_phrases,
    sst_sentences,
    without_sentences_of,
    write,
)
from trials import (
    MICRO_BEFORE,
    REHEARSAL,
    computed_once,
    mean_and_deviation,
    run_data_trials,
    run_trial,
)

from headwise.cli.build_recipe import resolve_checked
from headwise.recipe.preset_training import preset_for
from headwise.settings import merged

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "classification_trials.json"
SOURCES = [*TRAINING, "src/headwise/tasks/**/*", "src/headwise/recipe/*"]

Table = dict[str, Any]

Split = tuple[Examples, Examples]
"""Examples that train, and those that are held out."""


def reviews(corpora: Path, seed: int) -> Split:
    return fold_of("movie-reviews", "reviews.folds.tsv.gz", 3, corpora, seed)


def sentences(corpora: Path, seed: int) -> Split:
    return fold_of("sentence-polarity", "rt-polarity.folds.tsv.gz", 2, corpora, seed)


def few(corpora: Path, seed: int) -> Split:
    train, held_out = sentences(corpora, seed)
    return random.Random(seed).sample(train, 500), held_out


def fold_of(name: str, file: str, column: int, corpora: Path, seed: int) -> Split:
    """Return one fold as held out, and all others."""
    parts = folds(file, column)(corpora / name)[seed]
    return parts["train"] + parts["dev"], parts["test"]


def treebank(corpora: Path, seed: int) -> Split:
    return whole_sentences(corpora, "sst2")


def grades(corpora: Path, seed: int) -> Split:
    return whole_sentences(corpora, "sst5")


def whole_sentences(corpora: Path, name: str) -> Split:
    """Return the training sentences of the treebank, and its dev sentences."""
    train, held_out = (
        [(text, label) for label, text in read(corpora / "sst" / f"{name}_{part}")]
        for part in ("train.tsv.gz", "dev.tsv")
    )
    return train, held_out


def phrases(corpora: Path, seed: int) -> Split:
    held_out = sst_sentences(corpora / "sst")
    two = {"0": "0", "1": "0", "3": "1", "4": "1"}
    labelled = labelled_phrases(corpora / "sst" / "trees" / "train.txt.gz")
    train = [(text, two[label]) for text, label in labelled.items() if label in two]
    return without_sentences_of(held_out, train), held_out["dev"]


def books(corpora: Path, seed: int) -> Split:
    drawn = random.Random(seed)
    train: Examples = []
    held_out: Examples = []
    text = read_text(corpora / "gutenberg" / "train.txt.gz")
    for number, book in enumerate(text.split("\n\n\n")):
        paragraphs = [" ".join(each.split()) for each in book.split("\n\n")]
        long = [(each, f"book {number}") for each in paragraphs if len(each) >= 200]
        last = len(long) * 9 // 10
        train += drawn.sample(long[:last], min(200, last))
        held_out += drawn.sample(long[last:], min(40, len(long) - last))
    drawn.shuffle(train)
    return train, held_out


def languages(corpora: Path, seed: int) -> Split:
    drawn = random.Random(seed)
    train: Examples = []
    held_out: Examples = []
    for language, folder, column in (
        ("en", "tatoeba-en-fr", 0),
        ("fr", "tatoeba-en-fr", 1),
        ("de", "tatoeba-en-de", 1),
    ):
        rows = read(corpora / folder / "train.tsv.gz")
        texts = sorted({row[column] for row in rows})
        chosen = [(text, language) for text in drawn.sample(texts, 2500)]
        train += chosen[:2000]
        held_out += chosen[2000:]
    drawn.shuffle(train)
    return train, held_out


DATA: dict[str, Callable[[Path, int], Split]] = {
    each.__name__: each
    for each in (reviews, sentences, few, treebank, phrases, books, languages, grades)
}
"""Name of a data set -> what reads its split of a seed."""


def regularized(
    tokenizer: str = "unigram",
    vocab_size: int = 16_000,
    *,
    model: Table | None = None,
    **training: Any,
) -> Table:
    """Return the changes of a trial with much dropout, and a rate that falls to 0."""
    linear = {
        "schedule": "linear",
        "word_dropout": 0.3,
        "epochs": 6,
        "steps": 1500,
        "batch_tokens": 4096,
        "optimizer": "muon",
        "learning_rate": 0.002,
        "patience": "none",
        "average_last": 1,
        "warmup_steps": 50,
        "ema_decay": 0.99,
    }
    return {
        "preset": "micro",
        "text": {"tokenizer": tokenizer, "vocab_size": vocab_size},
        "model": {"dropout": 0.4, **(model or {})},
        "training": {**linear, **MICRO_BEFORE, **training},
    }


EARLY_STOPPING: Table = {"epochs": "none", "steps": 10_000, "patience": 8}

TRIALS: dict[str, Table] = {
    "default": {},
    "before": {
        "preset": "micro",
        "training": MICRO_BEFORE,
        "held_out": 50,
    },
    "regularized": regularized(),
    "bpe-2000": regularized("bpe", 2000),
    "bpe-8000": regularized("bpe", 8000),
    "bpe-16000": regularized("bpe", 16_000),
    "words-20000": regularized("words", 20_000),
    "unigram-8000": regularized("unigram", 8000),
    "unigram-32000": regularized("unigram", 32_000),
    **{
        f"sampled-{alpha}": regularized(unigram_alpha=alpha)
        for alpha in (0.1, 0.2, 0.5)
    },
    "1-layer": regularized(model={"encoder_layers": 1}),
    "1-layer-256": regularized(
        model={"encoder_layers": 1, "d_model": 256, "d_ff": 512}
    ),
    "12-epochs": regularized(epochs=12),
    "3-epochs": regularized(epochs=3),
    "rate-0.005": regularized(learning_rate=0.005),
    "rate-0.001": regularized(learning_rate=0.001),
    "dropout-0.5": regularized(model={"dropout": 0.5}, word_dropout=0.4),
    "dropout-0.3": regularized(model={"dropout": 0.3}, word_dropout=0.2),
    "batch-2048": regularized(batch_tokens=2048),
    "adam": regularized(optimizer="adam", learning_rate=0.001),
    "constant": regularized(schedule="constant", validate_every=50, **EARLY_STOPPING),
    "plateau": regularized(
        schedule="constant",
        **{**EARLY_STOPPING, "patience": 4},
        on_plateau="cooldown",
    ),
}
"""Name of a trial -> what it changes in the preset.

One in ``held_out`` texts is the validation set, at least 50; without it the default.
"""


def main() -> None:
    run_data_trials(
        __doc__, RESULTS, SOURCES, data=DATA, trials=TRIALS, trial=trial, means=means
    )


def trial(
    name: str, trial_name: str, seed: int, arguments: argparse.Namespace
) -> Table:
    """Train with one seed; return the metric of what was held out."""
    train, held_out = DATA[name](arguments.corpora, seed)
    if arguments.rehearse:
        train, held_out = train[:100], held_out[:100]
    folder = arguments.work / f"{name}-{trial_name}-{seed}"
    data = arguments.work / "data" / f"{name}-{seed}"
    files = write({"train": train}, data)
    changes = dict(TRIALS[trial_name])
    is_number = name == "grades"
    own: Table = {
        "seed": seed,
        "task": "regression" if is_number else "classification",
        "data": {"corpora": [{"source": str(files["train"])}]},
    }
    if share := changes.pop("held_out", None):
        own["data"]["dev_pairs"] = max(50, len(train) // share)
    if arguments.rehearse:
        own |= {"text": {"vocab_size": 300}, "training": REHEARSAL}
    recipe = resolve_checked(
        preset=changes.pop("preset", preset_for(len(train), str(own["task"]))),
        extra=merged(changes, own),
        out=folder,
        assignments=arguments.set,
    )
    texts, labels = zip(*held_out, strict=True)
    metric = "pearson" if is_number else "accuracy"
    run = run_trial(folder, recipe, (texts, labels), [metric])
    if is_number:
        return run
    kept = [each for number, each in enumerate(train) if number % 10]
    parts = {"train": kept, "dev": train[::10], "test": held_out}
    others = computed_once(data / "baselines.json", lambda: baselines_of(parts))
    return {**run, "baselines": others}


def means(runs: Sequence[Table]) -> Table:
    """Return mean and standard deviation of the metric over the seeds."""
    return mean_and_deviation([next(iter(run["test"].values())) for run in runs])


if __name__ == "__main__":
    main()
