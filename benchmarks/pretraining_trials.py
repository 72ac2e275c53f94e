"""Trials of pre-training: what an encoder learns of plain text, without a recipe.

python benchmarks/pretraining_trials.py --corpora FOLDER --work FOLDER \
    --only scratch,default --data sentences,books --seeds 1,2,3

A newcomer's way: ``headwise run TEXTS --task masked_language_model``, ended after some
minutes of the clock, then ``headwise run TABLE --task classification --from BERT``. A
trial changes what the first command chooses; ``scratch`` leaves it out. The encoder of
a trial is the same for all seeds, which draw the examples. Measured are the accuracy of
texts that stand in no table, and the loss of the masked validation tokens in nats,
which depends on the vocabulary.

sentences  500 sentences of film reviews, of two classes, as ``few`` of
           ``classification_trials.py``; the encoder has read 2,000 film reviews
books      paragraphs of 15 novels, 20 of each, in whose first nine tenths the encoder
           has read; 40 of the last tenth of each are held out

The figures of trials and seeds that ran before stay in the result file: it is the
ledger.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import classification_trials
from classification_trials import SOURCES
from review_texts import pretraining_texts, read_text
from sentiment import Examples
from trials import REHEARSAL, mean_and_deviation, run_data_trials, run_trial

from headwise.cli.build_recipe import recipe_from_options
from headwise.storage import write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "pretraining_trials.json"
PARAGRAPHS = 20
"""Paragraphs of each novel that train."""

Table = dict[str, Any]


def sentences(corpora: Path, seed: int) -> classification_trials.Split:
    return classification_trials.few(corpora, seed)


def books(corpora: Path, seed: int) -> classification_trials.Split:
    train, held_out = classification_trials.books(corpora, seed)
    counts: dict[str, int] = {}
    few: Examples = []
    for text, label in train:
        counts[label] = counts.get(label, 0) + 1
        if counts[label] <= PARAGRAPHS:
            few.append((text, label))
    return few, held_out


def text_of(name: str, corpora: Path) -> str:
    """Return the text that the encoder of a data set reads."""
    if name == "sentences":
        return "\n".join(pretraining_texts(corpora)["reviews"]) + "\n"
    found = read_text(corpora / "gutenberg" / "train.txt.gz").split("\n\n\n")
    return "\n\n\n".join(book[: len(book) * 9 // 10] for book in found)


DATA = {"sentences": sentences, "books": books}


def ended_after(minutes: float, preset: str | None = None, **model: str) -> Table:
    """Return the changes of a trial that time ends."""
    return {"preset": preset, "training": {"max_minutes": minutes}, "model": model}


TRIALS: dict[str, Table] = {
    "scratch": {},
    "default": ended_after(5),
    "tiny": ended_after(5, "tiny"),
    "tiny-sinusoids": ended_after(5, "tiny", positions="sinusoidal"),
}
"""Name of a trial -> the preset that pre-training takes, and its changes."""


def main() -> None:
    run_data_trials(
        __doc__, RESULTS, SOURCES, data=DATA, trials=TRIALS, trial=trial, means=means
    )


def trial(
    name: str, trial_name: str, seed: int, arguments: argparse.Namespace
) -> Table:
    """Train with one seed; return the accuracy of what was held out."""
    train, held_out = DATA[name](arguments.corpora, seed)
    path = arguments.work / "data" / f"{name}-{seed}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(f"{text}\t{label}\n" for text, label in train))
    encoder = None
    if trial_name != "scratch":
        encoder = pretrained(name, trial_name, arguments)
    folder = arguments.work / f"{name}-{trial_name}-{seed}"
    also: Table = {"seed": seed}
    if arguments.rehearse:
        also["training"] = REHEARSAL
    recipe = recipe_from_options(
        path,
        None,
        task="classification",
        also=also,
        assignments=arguments.set,
        initialize_from=[] if encoder is None else [Path(encoder["folder"])],
        out=folder,
    )
    inputs, references = (list(column) for column in zip(*held_out, strict=True))
    run = run_trial(folder, recipe, (inputs, references), ["accuracy"])
    if encoder is not None:
        run["encoder"] = {x: y for x, y in encoder.items() if x != "folder"}
    return run


def pretrained(name: str, trial_name: str, arguments: argparse.Namespace) -> Table:
    """Train the encoder of a trial, or find it; return its folder and its figures."""
    text = arguments.work / "data" / f"{name}.txt"
    if not text.is_file():
        write_text(text, text_of(name, arguments.corpora))
    changes = dict(TRIALS[trial_name])
    preset = changes.pop("preset")
    if arguments.rehearse:
        changes["training"] = REHEARSAL
    folder = arguments.work / f"{name}-{trial_name}-encoder"
    recipe = recipe_from_options(
        text,
        None,
        task="masked_language_model",
        preset=preset,
        also=changes,
        out=folder,
    )
    run = run_trial(folder, recipe, ([], []), scores_of=lambda model: {})
    kept = ("validation", "updates", "tokens", "minutes", "processor_minutes")
    return {"folder": str(folder), **{each: run[each] for each in kept}}


def means(runs: list[Table]) -> Table:
    """Return mean and standard deviation of the accuracy over the seeds."""
    return mean_and_deviation([run["test"]["accuracy"] for run in runs])


if __name__ == "__main__":
    main()
