"""Measure sentiment classification on real reviews, beside scikit-learn's classifiers.

python benchmarks/sentiment.py --corpora FOLDER --work FOLDER [--only sst] [--seeds 1,2]
python benchmarks/sentiment.py --corpora FOLDER --work FOLDER --pretrain

Three data sets: ``sst``, phrases of the training trees of the Stanford Sentiment
Treebank, its dev and test sentences (phrases that are a dev or test sentence, case and
punctuation apart, are left out). Transformers learn the treebank's five classes, of
all phrases, neutral ones too; a sentence of the test set, which has two classes, is
positive if the two positive classes are more probable than the two negative ones. The
baselines learn the phrases of two classes. ``sentence-polarity`` and
``movie-reviews``, in ten folds, of which each is the test set once, and the next one
chooses. sst shares sentences with sentence-polarity: each is only ever tested on its
own. ``--pretrain`` is about sst alone: a masked language model is trained first, on the
texts of movie-reviews, without their labels, and on the sentences of sst's training
trees; the classifier starts from its encoder. ``--baselines`` leaves out training:
Naive Bayes, a linear SVM, and the SVM on Naive Bayes' log-count ratios (Wang and
Manning 2012), all on words and pairs of words, present or not; texts are vectors of
length 1 for the SVMs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from result_file import TRAINING, Measurement, add_options, place_of
from review_texts import (
    folded,
    is_positive,
    labelled_phrases,
    pretraining_texts,
    read,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC
from trials import (
    add_training_options,
    recipe_of,
    run_trial,
    summary,
    train_trial,
)

from headwise.cli.prepare_and_train import prepare_corpus
from headwise.inference.predictor import Predictor

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "sentiment.json"
SOURCES = [
    *TRAINING,
    "src/headwise/tasks/**/*",
    "recipes/sentiment-*.toml",
    "benchmarks/review_texts.py",
]
POSITIVE, NEUTRAL = "1", "2"
"""The label of positive sentences among two classes, of neutral ones among five."""

FOLDS = 10
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Values of the SVMs' C, of which the dev set chooses."""

Examples = list[tuple[str, str]]
"""Texts with their labels."""

Parts = dict[str, Examples]
"""Name of a part (train, dev, test) -> its examples."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    names = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--only", type=names, default=[*DATA])
    parser.add_argument("--seeds", type=lambda text: [*map(int, text.split(","))])
    parser.add_argument("--baselines", action="store_true")
    parser.add_argument("--pretrain", action="store_true")
    parser.add_argument("--set-pretraining", action="append", default=[])
    add_training_options(parser)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.only} - {*DATA}):
        parser.error(f"--only knows {', '.join(DATA)}, not {', '.join(unknown)}")
    if arguments.pretrain and (arguments.baselines or arguments.only != [*DATA]):
        parser.error("--pretrain is about sst alone: leave out --only and --baselines")
    measurement = Measurement.begin(SOURCES)
    place = place_of(arguments)
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    result: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "data": known.get("data", {}),
    }
    if arguments.pretrain:
        encoder, facts = pretrain(arguments)
        read_splits = sst_of_five_classes(arguments.corpora / "sst")
        splits = [thinned(each, arguments) for each in read_splits]
        runs = train("sst", splits, arguments, encoder)
        found = result["data"].setdefault("sst", {})
        found["pretrained"] = {
            "pretraining": facts,
            "runs": runs,
            **summary(runs),
            "threads": torch.get_num_threads(),
            **measurement.provenance(),
        }
        print(json.dumps(found["pretrained"], indent=2), file=sys.stderr)
        measurement.write(place, result)
        return
    for name in arguments.only:
        found = result["data"].setdefault(name, {})
        folder = arguments.corpora / name
        if arguments.baselines or arguments.rehearse:
            splits = [thinned(each, arguments) for each in DATA[name](folder)]
            found["baselines"] = baselines(splits)
        if not arguments.baselines:
            read_parts = sst_of_five_classes if name == "sst" else DATA[name]
            splits = [thinned(each, arguments) for each in read_parts(folder)]
            runs = train(name, splits, arguments)
            found |= {"runs": runs, **summary(runs)}
        print(json.dumps({name: found}, indent=2), file=sys.stderr)
        measurement.write(place, result)


def thinned(parts: Parts, arguments: argparse.Namespace) -> Parts:
    """Return ``parts``, of a rehearsal about 200 examples of each, from all of it."""
    if not arguments.rehearse:
        return parts
    # an odd step, as in some data every other example is of the same class
    return {part: each[:: len(each) // 200 | 1] for part, each in parts.items()}


def train(
    name: str,
    splits: Sequence[Parts],
    arguments: argparse.Namespace,
    encoder: Path | None = None,
) -> list[dict[str, Any]]:
    """Train one seed for each fold, or each seed where there are no folds.

    Training starts from the model in the folder ``encoder``, if there is one.
    """
    many = len(splits) > 1
    seeds = arguments.seeds or ([*range(len(splits))] if many else [1, 2, 3])
    recipe_name = name if encoder is None else f"{name}-pretrained"
    runs = []
    for seed in seeds[:1] if arguments.rehearse else seeds:
        parts = splits[seed if many else 0]
        folder = arguments.work / f"{recipe_name}-{seed}"
        files = write(parts, arguments.work / "data" / (f"{name}-{seed}"))
        extra: dict[str, Any] = {
            "seed": seed + 1 if many else seed,
            "initialize_from": [] if encoder is None else [str(encoder)],
            "data": {
                "corpora": [{"source": str(files["train"])}],
                "dev": {"source": str(files["dev"])},
            },
        }
        if arguments.rehearse:
            extra["training"] = {"steps": 20, "validate_every": 10, "epochs": None}
        file = ROOT / "recipes" / f"sentiment-{recipe_name}.toml"
        texts, labels = zip(*parts["test"], strict=True)
        run = run_trial(
            folder,
            recipe_of(file, extra, folder, arguments.set),
            (texts, labels),
            scores_of=partial(accuracy_of_two_classes, texts=texts, labels=labels)
            if name == "sst"
            else None,
            device=arguments.device,
        )
        runs.append(run)
        print(json.dumps({recipe_name: run}), file=sys.stderr)
    return runs


def accuracy_of_two_classes(
    model: Predictor, texts: Sequence[str], labels: Sequence[str]
) -> dict[str, float]:
    """Return how many of the sentences of two classes a model of five has right."""
    right = [
        is_positive(dict(each.ranked)) == (label == POSITIVE)
        for each, label in zip(model.predictions(texts), labels, strict=True)
    ]
    return {"accuracy": 100 * statistics.mean(right)}


def pretrain(arguments: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    """Train the masked language model, unless that was done.

    Return its folder and its figures; losses are in nats for each masked token.
    """
    files = {
        name: arguments.work / "data" / f"pretraining-{name}.txt"
        for name in ("reviews", "sentences", "dev")
    }
    for name, lines in pretraining_texts(arguments.corpora).items():
        files[name].parent.mkdir(parents=True, exist_ok=True)
        few = lines[:50] if arguments.rehearse else lines
        files[name].write_text("".join(f"{line}\n" for line in few), encoding="utf-8")
    folder = arguments.work / "pretraining"
    extra: dict[str, Any] = {
        "data": {
            "corpora": [
                {"source": str(files["reviews"]), "format": "text"},
                {"source": str(files["sentences"]), "format": "text", "weight": 2.0},
            ],
            "dev": {"source": str(files["dev"]), "format": "text"},
        }
    }
    if arguments.rehearse:
        extra["training"] = {"steps": 4, "validate_every": 2}
        extra["text"] = {"vocab_size": 500}
    file = ROOT / "recipes" / "sentiment-pretraining.toml"
    recipe = recipe_of(file, extra, folder, arguments.set_pretraining)
    corpus = prepare_corpus(folder, recipe)
    state, trained = train_trial(folder, recipe, corpus, arguments.device)
    return folder, {"validation": state.best_loss, **trained}


def baselines(splits: Sequence[Parts]) -> dict[str, float]:
    """Return the mean accuracy of each baseline on the test parts, in percent."""
    found: dict[str, list[float]] = {}
    for parts in splits:
        for name, accuracy in baselines_of(parts).items():
            found.setdefault(name, []).append(accuracy)
    return {name: float(np.mean(values)) for name, values in found.items()}


def baselines_of(parts: Parts) -> dict[str, float]:
    """Return the accuracy of each baseline on one test part."""
    counter = CountVectorizer(
        ngram_range=(1, 2), token_pattern=r"\S+", binary=True, dtype=np.float64
    )
    x = {"train": counter.fit_transform([text for text, _ in parts["train"]])}
    x |= {p: counter.transform([t for t, _ in parts[p]]) for p in ("dev", "test")}
    y = {part: np.array([label for _, label in parts[part]]) for part in parts}

    bayes = MultinomialNB().fit(x["train"], y["train"])
    ratio = bayes.feature_log_prob_[1] - bayes.feature_log_prob_[0]
    weighted = {part: each.multiply(ratio).tocsr() for part, each in x.items()}
    return {
        "naive_bayes": 100 * bayes.score(x["test"], y["test"]),
        "svm": best_svm(x, y),
        "naive_bayes_svm": best_svm(weighted, y),
    }


def best_svm(x: dict[str, Any], y: dict[str, Any]) -> float:
    """Return the test accuracy of the linear SVM that is best on the dev part."""
    x = {part: normalize(each) for part, each in x.items()}
    fitted = [LinearSVC(C=c).fit(x["train"], y["train"]) for c in PENALTIES]
    best = max(fitted, key=lambda each: each.score(x["dev"], y["dev"]))
    return float(100 * best.score(x["test"], y["test"]))


def sst(folder: Path) -> list[Parts]:
    """Return the phrases of the training trees, and dev and test sentences."""
    parts = sst_sentences(folder)
    rows = read(folder / "sst2_glue_phrases_train.tsv.gz")
    phrases = [(text.strip(), label) for label, text in rows]
    return [{**parts, "train": without_sentences_of(parts, phrases)}]


def sst_of_five_classes(folder: Path) -> list[Parts]:
    """Return the same with all phrases of the training trees, of five classes.

    So has the dev part, which has no neutral sentences; the test part has two.
    """
    parts = sst_sentences(folder)
    phrases = [*labelled_phrases(folder / "trees" / "train.txt.gz").items()]
    rows = read(folder / "sst5_dev.tsv")
    dev = [(text.lower(), label) for label, text in rows if label != NEUTRAL]
    train = without_sentences_of(parts, phrases)
    return [{"train": train, "dev": dev, "test": parts["test"]}]


def sst_sentences(folder: Path) -> Parts:
    """Return the dev and the test sentences, of two classes."""
    return {
        part: [
            (text.lower(), label) for label, text in read(folder / f"sst2_{part}.tsv")
        ]
        for part in ("dev", "test")
    }


def without_sentences_of(parts: Parts, phrases: Examples) -> Examples:
    """Return the phrases that are no sentence of ``parts``."""
    held_out = {folded(text) for each in parts.values() for text, _ in each}
    return [(text, label) for text, label in phrases if folded(text) not in held_out]


def folds(file: str, text_column: int) -> Callable[[Path], list[Parts]]:
    """Return a function that reads ten folds from a file of a folder."""

    def read_folds(folder: Path) -> list[Parts]:
        rows = read(folder / file)
        by_fold: list[Examples] = [[] for _ in range(FOLDS)]
        for row in rows:
            by_fold[int(row[0])].append((row[text_column].lower(), row[1]))
        splits = []
        for number in range(FOLDS):
            after = (number + 1) % FOLDS
            others = [by_fold[n] for n in range(FOLDS) if n not in (number, after)]
            splits.append(
                {
                    "train": [example for each in others for example in each],
                    "dev": by_fold[after],
                    "test": by_fold[number],
                }
            )
        return splits

    return read_folds


DATA: dict[str, Callable[[Path], list[Parts]]] = {
    "sst": sst,
    "sentence-polarity": folds("rt-polarity.folds.tsv.gz", 2),
    "movie-reviews": folds("reviews.folds.tsv.gz", 3),
}
"""Name of a data set, which is also its folder -> what reads its splits."""


def write(parts: Parts, folder: Path) -> dict[str, Path]:
    """Write a table of text and label for each part; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for part, examples in parts.items():
        paths[part] = folder / f"{part}.tsv"
        lines = (f"{text}\t{label}\n" for text, label in examples)
        paths[part].write_text("".join(lines), encoding="utf-8")
    return paths


if __name__ == "__main__":
    main()
