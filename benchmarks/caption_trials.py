"""Trials on Multi30k: find the settings that translate captions best at equal cost.

python benchmarks/caption_trials.py --corpora FOLDER --work FOLDER --only short
python benchmarks/caption_trials.py --corpora FOLDER --work FOLDER --only muon --test

Text is lower-cased and tokenised by its publisher, and scored so, as papers do. Trials
that are called short take the same number of updates of the same number of tokens that
go through the model; one seed and the validation set tell which are worth more.
``--test`` reads the test sets, once a trial. Some trials are ensembles of the models of
other trials, others learn from the translations of such an ensemble too (sequence-level
knowledge distillation, Kim and Rush 2016), or from the translations of a model of the
reverse direction as well (data diversification, Nguyen et al. 2020). ``256-many``
learns to translate between the four languages of the captions, in twelve directions,
and ``from-tatoeba`` starts from a model that ships. The figures of trials and seeds
that ran before stay in the result file: it is the ledger.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from corpus_lines import read_lines
from result_file import TRAINING, TRANSLATION, Measurement
from trials import (
    REHEARSAL,
    add_to_ledger,
    add_training_options,
    computed_once,
    mean_and_deviation,
    parse_trial_options,
    recipe_of,
    run_trial,
)

from headwise.inference.load import load_predictor
from headwise.inference.translator import load
from headwise.metrics.bleu_chrf_ter import bleu, chrf
from headwise.settings import merged
from headwise.storage import write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "caption_trials.json"
SOURCES = [*TRAINING, *TRANSLATION, "recipes/multi30k-*.toml"]

TEST_SETS = ("test_2016_flickr", "test_2017_flickr")

Table = dict[str, Any]

SHORT: Table = {"steps": 2400, "warmup_steps": 200, "validate_every": 240}
"""Settings of training for 20 epochs."""

LONG: Table = {
    "steps": 20_000,
    "batch_tokens": 2048,
    "schedule": "paper",
    "warmup_steps": 300,
    "cooldown": 0.2,
}
"""Settings of training for 83 epochs of small batches, by Equation 3."""

MORE: Table = {
    "steps": 12_000,
    "batch_tokens": 2048,
    "learning_rate": 0.001,
    "warmup_steps": 100,
}
"""Settings of training that goes on from another trial's model for 25 epochs of two
passes, by a straight line to 0."""

ON_GPU: Table = {
    "steps": 5000,
    "batch_tokens": 8192,
    "max_minutes": 2.25,
    "schedule": "constant",
    "cooldown": 0.7,
    "learning_rate": 0.004,
    "warmup_steps": 300,
    "validate_every": 5000,
    "validation_pairs": 100,
}
"""Settings of training for as many tokens as the recipe, or two minutes, on a part of
a GPU, where a wider model takes no longer; only the last weights are validated."""


def on_gpu(d_ff: int, dropout: float, r_drop: float = 0.0, vocab: int = 4000) -> Table:
    """Return the changes of a trial of width 256 on a GPU."""
    return {
        "text": {"vocab_size": vocab},
        "model": {"d_model": 256, "d_ff": d_ff, "dropout": dropout},
        "training": {**ON_GPU, "r_drop": r_drop},
    }


WIDE_ON_GPU: Table = {
    **ON_GPU,
    "steps": 20_000,
    "max_minutes": 3.2,
    "cooldown": 0.75,
    "validate_every": 20_000,
    "validation_pairs": 1014,
}
"""Settings of training for three minutes on a part of a GPU."""


def wide(dropout: float) -> Table:
    """Return the changes of a trial of width 256 and the published vocabulary."""
    return {
        "text": {"vocab_size": 10_000},
        "model": {"d_model": 256, "d_ff": 512, "dropout": dropout},
        "training": WIDE_ON_GPU,
    }


ALL = ("en", "de", "fr", "cs")
"""Languages that the same pictures are described in."""

TAGS = tuple(f">>{language}<<" for language in ALL)
"""What a source begins with that may be translated into several languages."""

MANY: Table = {
    "text": {"vocab_size": 12_000, "symbols": TAGS},
    "model": {"d_model": 256, "d_ff": 512, "dropout": 0.3},
    "training": {
        **WIDE_ON_GPU,
        "steps": 10_000,
        "cooldown": 0.5,
        "validate_every": 5000,
    },
}
"""Changes of a trial that translates between all pairs of languages for 12 epochs."""

MANY_THEN_ONE: Table = {
    "text": MANY["text"],
    "model": {**MANY["model"], "dropout": 0.4},
    "training": {
        **WIDE_ON_GPU,
        "steps": 1500,
        "max_minutes": 1.2,
        "schedule": "linear",
        "cooldown": 0,
        "learning_rate": 0.0015,
        "warmup_steps": 50,
        "validate_every": 500,
    },
}
"""Changes of a trial that goes on from such a model in one direction, 20 epochs."""

COOLDOWN: Table = {
    "optimizer": "adam",
    "steps": 1200,
    "batch_tokens": 8192,
    "learning_rate": 0.002,
    "warmup_steps": 50,
    "validate_every": 300,
}
"""Settings of ten epochs more from the mean of the checkpoints of the published recipe,
by a straight line to 0."""

FROM_TATOEBA: Table = {
    "text": {"vocab_size": 8000, "placeholders": 0.0},
    "model": {"d_model": 192, "d_ff": 512, "dropout": 0.3},
    "training": {
        "steps": 1250,
        "learning_rate": 0.002,
        "warmup_steps": 50,
        "validate_every": 250,
    },
    "decoding": {"recase": False, "copy_numbers": False},
}
"""Changes of a trial that goes on from a model that ships for 12 epochs."""

FROM_SHIPPED = ("from-tatoeba",)
"""Trials that start from ``en-LANGUAGE``, which has learned the sentences of Tatoeba:
other text than that of the comparisons with papers."""

BEGINS_WITH = {
    "published-then-cooldown": "published",
    "long-adam-then-r-drop": "long-adam",
    "long-adam-then-more": "long-adam",
    "256-many-then-one": "256-many",
}
"""Name of a trial -> the trial of the same seed whose model it starts from."""

TRIALS: dict[str, Table] = {
    "muon": {},
    "long-adam": {"training": {**LONG, "optimizer": "adam"}},
    "long-muon": {"training": LONG},
    "long-adam-then-r-drop": {"training": {**MORE, "r_drop": 5.0}},
    "long-adam-then-more": {"training": MORE},
    "muon-bpe-dropout": {"training": {"bpe_dropout": 0.1}},
    "short": {"training": SHORT},
    "short-r-drop": {"training": {**SHORT, "r_drop": 5.0}},
    "short-bpe-dropout": {"training": {**SHORT, "bpe_dropout": 0.1}},
    "short-vocab-1000": {"training": SHORT, "text": {"vocab_size": 1000}},
    "short-adam": {"training": {**SHORT, "optimizer": "adam"}},
    "short-vocab-10000": {"training": SHORT, "text": {"vocab_size": 10_000}},
    "short-dropout-0.2": {"training": SHORT, "model": {"dropout": 0.2}},
    "short-both-directions": {"training": SHORT, "data": {"both_directions": True}},
    "short-simcut": {"training": {**SHORT, "simcut": 3.0}},
    "short-norm-pre": {"training": SHORT, "model": {"norm": "pre"}},
    "published-then-cooldown": {
        "text": {"vocab_size": 10_000},
        "training": COOLDOWN,
    },
    "gpu-256": on_gpu(512, 0.3),
    "gpu-256-dropout-0.4": on_gpu(1024, 0.4),
    "gpu-256-r-drop-1": on_gpu(512, 0.3, 1.0),
    "gpu-256-r-drop-3": on_gpu(1024, 0.3, 3.0),
    "gpu-256-r-drop-1-vocab-8000": on_gpu(512, 0.3, 1.0, 8000),
    "256-on-gpu": wide(0.4),
    "256-distilled": wide(0.4),
    "256-many": MANY,
    "256-many-then-one": MANY_THEN_ONE,
    "from-tatoeba": FROM_TATOEBA,
}
"""Name of a trial -> what it changes in ``recipes/multi30k-muon.toml``."""


TAGGED = ("256-many", "256-many-then-one")
"""Trials whose sources begin with the language to translate into."""

ENSEMBLES: dict[str, tuple[tuple[str, int], ...]] = {
    "256-ensemble": (
        ("256-on-gpu", 1),
        ("256-on-gpu", 2),
        ("256-on-gpu", 3),
    ),
    "weight-decay-ensemble": (
        ("published-weight-decay-0.3", 1),
        ("published-weight-decay-0.3", 2),
        ("published-weight-decay-0.3", 3),
    ),
    "distilled-ensemble": (
        ("weight-decay-distilled", 1),
        ("weight-decay-distilled", 2),
        ("weight-decay-distilled", 3),
    ),
    "mixed-ensemble": (
        ("published", 2),
        ("published", 3),
        ("256-on-gpu", 1),
    ),
}
"""Name of a trial that trains nothing -> trials and seeds of its models."""

LEARNS_FROM = {
    "256-distilled": "256-ensemble",
    "published-distilled": "mixed-ensemble",
    "weight-decay-distilled": "weight-decay-ensemble",
    "weight-decay-diversified": "weight-decay-ensemble",
    "weight-decay-distilled-twice": "distilled-ensemble",
}
"""Name of a trial -> the ensemble whose translations of the training set are training
text as well."""

LEARNS_BACK_FROM = {"weight-decay-diversified": "weight-decay-reverse"}
"""Name of a trial -> the trial whose model, of the first seed, translates the targets
of the training set back into sources, which are training text as well."""

REVERSED = ("weight-decay-reverse",)
"""Trials that translate into English."""
WITH_COOLDOWN: Table = {"training": {"weight_decay": 0.3, "on_plateau": "cooldown"}}
"""Changes of a trial whose learning rate falls to 0 once patience is exhausted."""

BY_PUBLISHED_RECIPE: dict[str, Table] = {
    "published": {},
    "published-distilled": {},
    **{
        f"published-weight-decay-{decay}": {"training": {"weight_decay": decay}}
        for decay in (0.1, 0.3, 1.0)
    },
    "weight-decay-distilled": WITH_COOLDOWN,
    "weight-decay-distilled-twice": WITH_COOLDOWN,
    "weight-decay-diversified": WITH_COOLDOWN,
    "weight-decay-reverse": {"training": {"weight_decay": 0.3}},
}
"""Name of a trial -> what it changes in ``recipes/multi30k-en-LANGUAGE.toml``; all
others change ``recipes/multi30k-muon.toml``."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    names = [*BY_PUBLISHED_RECIPE, *TRIALS, *ENSEMBLES]
    parser.add_argument("--only", type=lambda text: text.split(","), default=names)
    parser.add_argument("--language", choices=("de", "fr"), default="de")
    parser.add_argument("--test", action="store_true", help="read the test sets")
    add_training_options(parser)
    arguments = parse_trial_options(parser, RESULTS)
    measurement = Measurement.begin(SOURCES)
    for name in arguments.only:
        for seed in arguments.seeds:
            run = trial(name, seed, arguments)
            print(json.dumps({name: run}), file=sys.stderr)
            path = [arguments.language, name]
            changes = changes_of(name)
            add_to_ledger(arguments, measurement, path, run, changes, means)


def changes_of(name: str) -> Table | None:
    """Return what a trial changes; None by the published recipe and for ensembles."""
    return TRIALS.get(name, BY_PUBLISHED_RECIPE.get(name) or None)


def trial(name: str, seed: int, arguments: argparse.Namespace) -> Table:
    """Train with one seed; return its figures, by beam search."""
    folder = folder_of(name, seed, arguments)
    if name in ENSEMBLES:
        folder.mkdir(parents=True, exist_ok=True)
        models = [folder_of(*each, arguments) for each in ENSEMBLES[name]]
        return {
            "seed": seed,
            "settings": [f"{trial}, seed {of}" for trial, of in ENSEMBLES[name]],
            "tokenised": all_scores(name, folder, models, arguments),
        }
    languages = ["en", arguments.language]
    if name in REVERSED:
        languages.reverse()
    own: Table = {"seed": seed, "languages": languages, "data": data(name, arguments)}
    if name == "256-many":
        own["data"]["corpora"] = all_directions(arguments)
    if name in BEGINS_WITH:
        own["initialize_from"] = [str(folder_of(BEGINS_WITH[name], seed, arguments))]
    if name in FROM_SHIPPED:
        own["initialize_from"] = [f"en-{arguments.language}"]
    if name in LEARNS_FROM:
        own["data"]["corpora"].append({"source": distilled(name, arguments)})
    if name in LEARNS_BACK_FROM:
        own["data"]["corpora"].append({"source": translated_back(name, arguments)})
    published = name in BY_PUBLISHED_RECIPE
    file = f"multi30k-en-{arguments.language}" if published else "multi30k-muon"
    changes = (BY_PUBLISHED_RECIPE if published else TRIALS)[name]
    table = merged(changes, own)
    if arguments.rehearse:
        table = merged(table, {"training": REHEARSAL})
        if name not in FROM_SHIPPED:  # whose tokenizers are given
            table = merged(table, {"text": {"vocab_size": 300}})
    recipe = recipe_of(ROOT / "recipes" / f"{file}.toml", table, folder, arguments.set)
    val = sides(name, "val", arguments)
    run = run_trial(folder, recipe, val, ["bleu"], device=arguments.device)
    del run["test"], run["test_examples"]  # val once more, by other tokens
    run["tokenised"] = all_scores(name, folder, [folder], arguments)
    return run


def folder_of(name: str, seed: int, arguments: argparse.Namespace) -> Path:
    """Return the folder of a trial with one seed."""
    work: Path = arguments.work
    language = "de" if name == "256-many" else arguments.language  # one for all
    return work / f"{language}-{name}-{seed}"


def distilled(name: str, arguments: argparse.Namespace) -> str:
    """Write the training sources with translations by an ensemble; return the file."""
    ensemble = LEARNS_FROM[name]
    models = [folder_of(*each, arguments) for each in ENSEMBLES[ensemble]]
    sources, _ = sides(name, "train", arguments)
    path = arguments.work / "data" / f"{arguments.language}-by-{ensemble}.tsv"
    if not path.is_file():
        write_pairs(path, sources, translated(models, sources, arguments))
    return str(path)


def translated_back(name: str, arguments: argparse.Namespace) -> str:
    """Write translations of the training targets with them; return the file."""
    reverse = LEARNS_BACK_FROM[name]
    models = [folder_of(reverse, 1, arguments)]
    _, targets = sides(name, "train", arguments)
    path = arguments.work / "data" / f"{arguments.language}-by-{reverse}.tsv"
    if not path.is_file():
        write_pairs(path, translated(models, targets, arguments), targets)
    return str(path)


def translated(
    models: Sequence[Path], lines: Sequence[str], arguments: argparse.Namespace
) -> list[str]:
    """Return translations by one model, or by an ensemble."""
    return load(models, device=arguments.device).translate(lines)


def write_pairs(path: Path, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Write pairs as a TSV, without those of which a side is empty."""
    pairs = zip(sources, targets, strict=True)
    write_text(path, "".join(f"{a}\t{b}\n" for a, b in pairs if a and b))


def data(name: str, arguments: argparse.Namespace) -> Table:
    """Write the training and validation sets; return the settings of them."""
    tables: dict[str, Table] = {}
    prefix = arguments.language
    if name in (*TAGGED, *REVERSED):
        prefix += "-tagged" if name in TAGGED else "-reversed"
    for part in ("train", "val"):
        tables[part] = {}
        both = sides(name, part, arguments)
        for side, lines in zip(("source", "target"), both, strict=True):
            path = arguments.work / "data" / f"{prefix}-{part}.{side}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, "".join(f"{line}\n" for line in lines))
            tables[part][side] = str(path)
    return {"corpora": [tables["train"]], "dev": tables["val"]}


def all_directions(arguments: argparse.Namespace) -> list[Table]:
    """Write the training set from each language into each; return the corpora.

    Pictures have one description in each language.
    """
    corpora = []
    for source, target in permutations(ALL, 2):
        path = arguments.work / "data" / f"{source}-{target}-train.tsv"
        sides = (
            captions(arguments, "train", language) for language in (source, target)
        )
        pairs = zip(*sides, strict=True)
        write_text(path, "".join(f">>{target}<< {a}\t{b}\n" for a, b in pairs))
        corpora.append({"source": str(path)})
    return corpora


def sides(
    name: str, part: str, arguments: argparse.Namespace
) -> tuple[list[str], list[str]]:
    """Return the captions of a part: sources as a trial reads them, and targets."""
    english = captions(arguments, part, "en")
    other = captions(arguments, part, arguments.language)
    if name in REVERSED:
        return other, english
    tag = f">>{arguments.language}<< " if name in TAGGED else ""
    return [tag + each for each in english], other


def captions(arguments: argparse.Namespace, part: str, language: str) -> list[str]:
    """Return the captions of a part in one language."""
    path = arguments.corpora / "multi30k" / "tok" / f"{part}.lc.norm.tok.{language}"
    lines = read_lines(path)
    return lines[:500] if arguments.rehearse else lines


def all_scores(
    name: str, folder: Path, models: Sequence[Path], arguments: argparse.Namespace
) -> Table:
    """Return the scores of the validation set, and of those test sets that are read."""
    return {
        part: scores(name, folder, models, part, arguments)
        for part in ("val", *TEST_SETS)
        if part == "val" or arguments.test or score_file(folder, part).is_file()
    }


def scores(
    name: str,
    folder: Path,
    models: Sequence[Path],
    part: str,
    arguments: argparse.Namespace,
) -> Table:
    """Return tokenised BLEU and chrF of a part; each is translated once."""

    def compute() -> Table:
        sources, references = sides(name, part, arguments)
        model, *others = models
        predict = load(models).translate if others else load_predictor(model).predict
        outputs = predict(sources)
        by_tokens = bleu(outputs, references, tokenize="none")
        return {
            "bleu": by_tokens.value,
            "signature": by_tokens.signature,
            "chrf": chrf(outputs, references).value,
        }

    return computed_once(score_file(folder, part), compute)


def score_file(folder: Path, part: str) -> Path:
    """Return where the scores of a part are kept."""
    return folder / f"{part}.json"


def means(runs: list[Table]) -> Table:
    """Return mean and standard deviation of tokenised BLEU of each part over seeds."""
    found = {}
    for part in ("val", *TEST_SETS):
        values = [
            run["tokenised"][part]["bleu"] for run in runs if part in run["tokenised"]
        ]
        if values:
            found[part] = mean_and_deviation(values)
    return {"bleu": found}


if __name__ == "__main__":
    main()
