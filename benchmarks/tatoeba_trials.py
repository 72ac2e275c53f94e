"""Trials on Tatoeba: what the defaults give on little text, and what is better.

python benchmarks/tatoeba_trials.py --corpora FOLDER --work FOLDER --pairs 2000 \
    --only default,muon --seeds 1
python benchmarks/tatoeba_trials.py --corpora FOLDER --work FOLDER --language de --test

Everyday sentences, English to French or German. ``--pairs`` takes the first so many of
the training set, whose order is random; without it all train. A trial changes the
preset that ``headwise run`` chooses by the number of pairs. The validation set chooses;
``--test`` reads the test set, with one reference and with all that there are, once a
trial. ``muon-ensemble`` is the models of three seeds, ``muon-distilled`` learns from
its translations too, ``muon-interpolated`` from those of a beam that are nearest to the
references. ``tiny-8-minutes-distilled`` and ``-teachers`` do so with small models.
``tiny-8-minutes-reverse`` translates into English; ``-back-translated`` learns from its
translations of French or German sentences of other pairs. The figures of trials and
seeds that ran before stay in the result file: it is the ledger.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from corpus_lines import read_lines
from result_file import TRAINING, TRANSLATION, Measurement
from sacrebleu.metrics.bleu import BLEU
from trials import (
    REHEARSAL,
    add_to_ledger,
    add_training_options,
    computed_once,
    mean_and_deviation,
    parse_trial_options,
    run_trial,
)

from headwise.cli.build_recipe import resolve_checked
from headwise.inference.load import load_predictor
from headwise.inference.synthetic_pairs import SyntheticPair, make_pairs
from headwise.inference.translator import Translator, load
from headwise.metrics.bleu_chrf_ter import bleu, chrf
from headwise.recipe import Recipe
from headwise.recipe.preset_training import preset_for
from headwise.settings import merged
from headwise.storage import write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "tatoeba_trials.json"
SOURCES = [*TRAINING, *TRANSLATION]

Table = dict[str, Any]

NO_DECAY: Table = {"weight_decay": 0.0}
"""The presets had none when most trials ran."""

SHORT: Table = {"steps": 3000, "patience": "none", "average_last": 1, **NO_DECAY}
"""Settings of training for four readings of all pairs, or more of fewer pairs."""

PAPER: Table = {**SHORT, "validate_every": 200, "average_last": 5}
"""Settings of training by Equation 3, and the mean of the last five checkpoints."""

PAPER_LONG: Table = {**PAPER, "steps": 10_000, "validate_every": 500}

PAPER_LONGER: Table = {**PAPER, "steps": 20_000, "validate_every": 1000}

LINEAR: Table = {**SHORT, "schedule": "linear", "validate_every": 1000}

ON_GPU: Table = {
    **LINEAR,
    "optimizer": "muon",
    "steps": 7000,
    "batch_tokens": 8192,
    "learning_rate": 0.004,
}
"""Settings of training for 35 readings of all pairs, minutes on a GPU."""

PAPER_ON_GPU: Table = {
    **PAPER,
    "steps": 7000,
    "batch_tokens": 8192,
    "validate_every": 350,
}
"""Settings of as many readings by Equation 3."""


DISTILLED: Table = {
    **LINEAR,
    "optimizer": "muon",
    "steps": 5000,
    "learning_rate": 0.0015,
    "warmup_steps": 100,
}
"""Settings of training that goes on from another trial's model."""


def timed(preset: str, steps: int, *, dropout: float | None = None) -> Table:
    """Return the changes of a trial that time ends, after about ``steps`` updates."""
    settings = {"steps": steps, "cooldown": 0.2, "patience": "none", **NO_DECAY}
    table: Table = {"preset": preset, "training": settings}
    return table if dropout is None else {**table, "model": {"dropout": dropout}}


def timed_muon(steps: int, *, dropout: float) -> Table:
    """Return the changes of a trial of ``tiny`` by Muon.

    An update takes a sixth more time, so ``steps`` are fewer than in ``timed``.
    """
    settings = {"steps": steps, "optimizer": "muon", "validate_every": steps // 2}
    return {
        "preset": "tiny",
        "model": {"dropout": dropout},
        "training": {**LINEAR, **settings},
    }


def cut_short(steps: int) -> Table:
    """Return the changes of a trial by Muon that time ends long before its schedule.

    A straight line to 0 over many more updates is still near its peak then.
    """
    changes = timed("tiny", steps, dropout=0.1)
    muon = {"optimizer": "muon", "schedule": "constant"}
    return {**changes, "training": {**changes["training"], **muon}}


def dropout(rate: float, training: Table) -> Table:
    """Return the changes of a trial with another dropout than that of the preset."""
    return {"model": {"dropout": rate}, "training": training}


def with_technique(changes: Table, steps: int = 2000) -> Table:
    """Return the changes of ``tiny-8-minutes`` with a technique on top."""
    return merged(timed("tiny", steps), changes)


BT = "<BT>"
"""What stands before a source that was back-translated."""

UNIGRAM: Table = {"text": {"tokenizer": "unigram"}}
NO_COOLDOWN: Table = {"cooldown": "none"}

TECHNIQUES: dict[str, Table] = {
    "simcut": {"training": {"simcut": 3.0}},
    "r-drop": {"training": {"r_drop": 1.0}},
    "bpe-dropout": {"training": {"bpe_dropout": 0.1}},
    "unigram": UNIGRAM,
    "unigram-sampling": {**UNIGRAM, "training": {"unigram_alpha": 0.2}},
    "word-dropout": {"training": {"word_dropout": 0.1}},
    "typos": {"training": {"source_noise": {"typos": 0.1}}},
    "norm-pre": {"model": {"norm": "pre"}},
    "norm-deep": {"model": {"norm": "deep"}},
    "norm-deep-rate-0.001": {
        "model": {"norm": "deep"},
        "training": {"learning_rate": 0.001},
    },
    "inner-dropout": {"model": {"attention_dropout": 0.1, "feed_forward_dropout": 0.1}},
    "linear": {"training": {"schedule": "linear", **NO_COOLDOWN}},
    "cosine": {"training": {"schedule": "cosine", **NO_COOLDOWN}},
    "weight-decay": {"training": {"weight_decay": 0.1}},
    "weight-decay-0.3": {"training": {"weight_decay": 0.3}},
    "weight-decay-1.0": {"training": {"weight_decay": 1.0}},
    "ema": {"training": {"ema_decay": 0.998}},
}
"""Techniques that are measured one by one on top of ``tiny-8-minutes``."""

TRIALS: dict[str, Table] = {
    "default": {},
    "default-20-minutes": {"training": {"max_minutes": 20}},
    "paper": dropout(0.1, PAPER),
    "paper-rate-0.006": dropout(0.1, {**PAPER, "learning_rate": 0.006}),
    "paper-rate-0.0015": dropout(0.1, {**PAPER, "learning_rate": 0.0015}),
    "paper-dropout-0": dropout(0.0, PAPER),
    "paper-dropout-0.2": dropout(0.2, PAPER),
    "paper-long": dropout(0.1, PAPER_LONG),
    "paper-longer": dropout(0.1, PAPER_LONGER),
    "paper-long-dropout-0": dropout(0.0, PAPER_LONG),
    "linear": dropout(0.1, LINEAR),
    "muon": dropout(0.1, {**LINEAR, "optimizer": "muon"}),
    "muon-long": dropout(0.1, {**LINEAR, "optimizer": "muon", "steps": 10_000}),
    "muon-longer": dropout(0.1, {**LINEAR, "optimizer": "muon", "steps": 20_000}),
    "paper-on-gpu": dropout(0.1, PAPER_ON_GPU),
    "paper-on-gpu-rate-0.006": dropout(0.1, {**PAPER_ON_GPU, "learning_rate": 0.006}),
    "paper-on-gpu-dropout-0.2": dropout(0.2, PAPER_ON_GPU),
    "muon-on-gpu": dropout(0.1, ON_GPU),
    "muon-on-gpu-dropout-0.2": dropout(0.2, ON_GPU),
    "muon-distilled": dropout(0.1, DISTILLED),
    "muon-distilled-alone": dropout(0.1, DISTILLED),
    "muon-interpolated": dropout(0.1, DISTILLED),
    "tiny-8-minutes": timed("tiny", 2000),
    "micro-8-minutes": timed("micro", 7000),
    "muon-8-minutes-cut-short": cut_short(1700),
    "tiny-20-minutes": timed("tiny", 5000),
    "tiny-20-minutes-dropout-0.1": timed("tiny", 5000, dropout=0.1),
    **{
        f"tiny-8-minutes-dropout-{rate}": timed("tiny", 2000, dropout=rate)
        for rate in (0.0, 0.1, 0.2)
    },
    **{
        f"muon-8-minutes-dropout-{rate}": timed_muon(1700, dropout=rate)
        for rate in (0.0, 0.1, 0.2, 0.3)
    },
    **{
        f"tiny-8-minutes-{name}": with_technique(changes)
        for name, changes in TECHNIQUES.items()
    },
    **{
        f"tiny-8-minutes-{name}": with_technique({})
        for name in ("reverse", "distilled", "teachers")
    },
    **{
        f"tiny-8-minutes-{name}": with_technique({"text": {"symbols": [BT]}})
        for name in ("back-translated", "back-translated-by-sampling")
    },
    "micro-until-a-plateau": {
        "preset": "micro",
        "training": {"on_plateau": "stop"},
    },
    "micro-until-a-plateau-cooldown": {"preset": "micro"},
    "micro-8-minutes-weight-decay-0.3": merged(
        timed("micro", 7000), {"training": {"weight_decay": 0.3}}
    ),
    **{
        f"muon-8-minutes-dropout-{rate}-weight-decay-{decay}": merged(
            timed_muon(1700, dropout=rate), {"training": {"weight_decay": decay}}
        )
        for rate in (0.1, 0.3)
        for decay in (0.03, 0.1, 0.3)
    },
    "tiny-8-minutes-dropout-0.2-weight-decay-0.3": merged(
        timed("tiny", 2000, dropout=0.2), {"training": {"weight_decay": 0.3}}
    ),
    "tiny-both-directions": with_technique({"data": {"both_directions": True}}, 1300),
    "tiny-both-directions-then-one": with_technique(
        {"training": {"learning_rate": 0.001, "schedule": "linear", **NO_COOLDOWN}}, 700
    ),
}
"""Name of a trial -> what it changes in the preset, or which one it takes."""


BEGINS_WITH = {
    "muon-distilled": "muon-on-gpu",
    "muon-distilled-alone": "muon-on-gpu",
    "muon-interpolated": "muon-on-gpu",
    "tiny-both-directions-then-one": "tiny-both-directions",
}
"""Name of a trial -> the trial of the same seed whose model it starts from."""

ENSEMBLES = {
    "muon-ensemble": ("muon-on-gpu", (1, 2, 3)),
    "tiny-ensemble": ("tiny-8-minutes", (1, 2, 3, 4)),
}
"""Name of a trial that trains nothing -> trial and seeds of its models."""

SHIPPED = "shipped"
"""In place of a trial: the model of the language pair that ships."""

BEAM_BY_CHRF: Table = {"beam": 12, "choose": "chrf"}
SAMPLES_BY_CHRF: Table = {"search": "sampling", "samples": 32, "choose": "chrf"}

SEARCHES: dict[str, tuple[str, Table]] = {
    "tiny-mbr-beam": ("tiny-8-minutes", BEAM_BY_CHRF),
    "tiny-mbr-samples": ("tiny-8-minutes", SAMPLES_BY_CHRF),
    "tiny-beam-12": ("tiny-8-minutes", {"beam": 12}),
    "shipped": (SHIPPED, {}),
    "shipped-beam-12": (SHIPPED, {"beam": 12}),
    "shipped-mbr-beam": (SHIPPED, BEAM_BY_CHRF),
    "shipped-mbr-bleu": (SHIPPED, {"beam": 12, "choose": "bleu"}),
    "shipped-mbr-samples": (SHIPPED, SAMPLES_BY_CHRF),
}
"""Name of a trial that trains nothing -> whose model it is, and another search than its
own: minimum Bayes risk (Kumar and Byrne 2004) over an n-best list or samples."""

LEARNS_FROM = {
    "muon-distilled": "muon-ensemble",
    "muon-distilled-alone": "muon-ensemble",
    "muon-interpolated": "muon-ensemble",
    "tiny-8-minutes-distilled": "tiny-ensemble",
}
"""Name of a trial -> the ensemble whose translations of the training sources are
training text as well (sequence-level knowledge distillation, Kim and Rush 2016)."""

ALONE = ("muon-distilled-alone", "muon-interpolated")
"""Trials of them that do not learn from the translations of the corpus."""

INTERPOLATED = ("muon-interpolated",)
"""Trials of them that learn, of each source, the translation of a beam of
``CANDIDATES`` that is nearest to one of the corpus (sequence-level interpolation,
Section 3.3)."""

CANDIDATES = 5

TEACHERS = {"tiny-8-minutes-teachers": "tiny-ensemble"}
"""Name of a trial -> the ensemble whose probabilities it learns from as well."""

REVERSE = ("tiny-8-minutes-reverse",)
"""Trials that translate into English."""

BACK_TRANSLATED: dict[str, Table] = {
    "tiny-8-minutes-back-translated": {"beam": 4},
    "tiny-8-minutes-back-translated-by-sampling": {"search": "sampling"},
}
"""Name of a trial -> the search by which the model of ``REVERSE`` of the same seed
translates the targets of ``NUM_MONOLINGUAL`` pairs that follow those of training
(back-translation, Sennrich et al. 2016). Real pairs count twice."""

NUM_MONOLINGUAL = 40_000

BLOCK = 10_000
"""Sources that are translated between two writes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    names = [*TRIALS, *ENSEMBLES, *SEARCHES]
    parser.add_argument("--only", type=lambda text: text.split(","), default=names)
    parser.add_argument("--language", choices=("de", "fr"), default="fr")
    parser.add_argument("--pairs", type=int, help="default: all")
    parser.add_argument("--test", action="store_true", help="read the test set")
    add_training_options(parser)
    arguments = parse_trial_options(parser, RESULTS)
    measurement = Measurement.begin(SOURCES)
    for name in arguments.only:
        for seed in arguments.seeds:
            run = trial(name, seed, arguments)
            print(json.dumps({name: run}), file=sys.stderr)
            path = [arguments.language, str(arguments.pairs or "all"), name]
            changes = TRIALS.get(name)
            add_to_ledger(arguments, measurement, path, run, changes, means)


def trial(name: str, seed: int, arguments: argparse.Namespace) -> Table:
    """Train with one seed; return its figures, by the model's own search."""
    folder = folder_of(name, seed, arguments)
    if name in ENSEMBLES:
        folder.mkdir(parents=True, exist_ok=True)
        models = models_of(name, arguments)
        return {
            "seed": seed,
            "settings": [each.name for each in models],
            "scores": all_scores(folder, models, arguments),
        }
    if name in SEARCHES:
        folder.mkdir(parents=True, exist_ok=True)
        trial, search = SEARCHES[name]
        model = Path(f"en-{arguments.language}")
        if trial != SHIPPED:
            model = folder_of(trial, seed, arguments)
        return {
            "seed": seed,
            "settings": {"model": model.name, **search},
            "scores": all_scores(folder, [model], arguments, search),
        }
    recipe = recipe_of(name, seed, arguments, folder)
    dev = rows("dev.allrefs.tsv", arguments)
    columns = [row[0] for row in dev], [row[1] for row in dev]
    if name in REVERSE:
        columns = columns[1], columns[0]
    run = run_trial(folder, recipe, columns, ["bleu"], device=arguments.device)
    del run["test"], run["test_examples"]  # of the validation set
    reverse = name in REVERSE
    run["scores"] = all_scores(folder, [folder], arguments, reverse=reverse)
    return run


def folder_of(name: str, seed: int, arguments: argparse.Namespace) -> Path:
    """Return the folder of a trial with one seed."""
    work: Path = arguments.work
    return work / f"{arguments.language}-{arguments.pairs or 'all'}-{name}-{seed}"


def models_of(ensemble: str, arguments: argparse.Namespace) -> list[Path]:
    """Return the folders of the models of an ensemble."""
    name, seeds = ENSEMBLES[ensemble]
    if arguments.rehearse:
        seeds = arguments.seeds
    return [folder_of(name, seed, arguments) for seed in seeds]


def recipe_of(
    name: str, seed: int, arguments: argparse.Namespace, folder: Path
) -> Recipe:
    """Write the training and validation sets; return the recipe of a trial."""
    train = rows("train.tsv", arguments)[: arguments.pairs]
    dev = rows("dev.tsv", arguments)
    if name in REVERSE:
        train, dev = ([[b, a] for a, b in pairs] for pairs in (train, dev))
    tables: dict[str, Table] = {}
    for part, pairs in (("train", train), ("dev", dev)):
        size = f"{len(pairs)}-" if part == "train" else ""
        file = f"{'-'.join(languages(name, arguments)[1:])}-{size}{part}.tsv"
        path = arguments.work / "data" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join("\t".join(pair) + "\n" for pair in pairs))
        tables[part] = {"source": str(path)}
    own: Table = {
        "seed": seed,
        "languages": languages(name, arguments),
        "data": {"corpora": [tables["train"]], "dev": tables["dev"]},
    }
    if name in BEGINS_WITH:
        begin = folder_of(BEGINS_WITH[name], seed, arguments)
        own["initialize_from"] = [str(begin)]
    if name in LEARNS_FROM:
        path = distilled(name, train, arguments)
        tables["distilled"] = {"source": str(path)}
        corpora = [tables[part] for part in ("train", "distilled")]
        own["data"]["corpora"] = corpora[1:] if name in ALONE else corpora
    if name in BACK_TRANSLATED:
        path = back_translated(name, seed, arguments)
        own["data"]["corpora"] = [{**tables["train"], "weight": 2.0}]
        own["data"]["corpora"].append({"source": str(path)})
    if name in TEACHERS:
        teachers = models_of(TEACHERS[name], arguments)
        own["training"] = {"teacher": [str(each / "best") for each in teachers]}
    if arguments.rehearse:
        own = merged(own, {"text": {"vocab_size": 300}, "training": REHEARSAL})
    changes = dict(TRIALS[name])
    preset = changes.pop("preset", preset_for(len(train)))
    return resolve_checked(
        preset=preset,
        extra=merged(changes, own),
        out=folder,
        assignments=arguments.set,
    )


def languages(name: str, arguments: argparse.Namespace) -> list[str]:
    """Return source and target language of a trial."""
    pair = ["en", arguments.language]
    return pair[::-1] if name in REVERSE else pair


def back_translated(name: str, seed: int, arguments: argparse.Namespace) -> Path:
    """Write pairs of translated and real sentences that follow the training pairs."""
    if arguments.pairs is None:
        raise SystemExit(
            f"{name} takes sentences of the pairs that follow: give --pairs"
        )
    path: Path = folder_of(name, seed, arguments).with_suffix(".tsv")
    if not path.is_file():
        following = rows("train.tsv", arguments, offset=arguments.pairs)
        following = following[:NUM_MONOLINGUAL]
        model = load([folder_of(REVERSE[0], seed, arguments)])
        lines = sorted({target for _, target in following})
        found = make_pairs(model, lines, BACK_TRANSLATED[name])
        kept = [each for each in found if not each.reason]
        if arguments.rehearse:  # its model has learned nothing
            kept = [SyntheticPair(line, line) for line in lines]
        write_text(path, "".join(f"{BT} {each.output}\t{each.line}\n" for each in kept))
    return path


def distilled(
    name: str, train: Sequence[Sequence[str]], arguments: argparse.Namespace
) -> Path:
    """Write the training sources with an ensemble's translations; return the file."""
    ensemble = LEARNS_FROM[name]
    sources = sorted({source for source, _ in train})
    kind = f"{len(sources)}-{ensemble}"
    if name in INTERPOLATED:
        kind += "-interpolated"
    whole = arguments.work / "data" / f"{arguments.language}-{kind}.tsv"
    if whole.is_file():
        return whole
    model, text = load(models_of(ensemble, arguments)), ""
    for start in range(0, len(sources), BLOCK):
        path = whole.with_suffix(f".{start}.tsv")
        if not path.is_file():
            block = sources[start : start + BLOCK]
            if name in INTERPOLATED:
                outputs = nearest_outputs(model, block, train)
            else:
                outputs = model.translate(block)
            pairs = zip(block, outputs, strict=True)
            write_text(path, "".join(f"{a}\t{b}\n" for a, b in pairs if b))
        text += path.read_text(encoding="utf-8")
    write_text(whole, text)
    return whole


def nearest_outputs(
    model: Translator, sources: Sequence[str], train: Sequence[Sequence[str]]
) -> list[str]:
    """Return the translation of each source that is nearest to one of its references.

    It is empty where there is none to learn from.
    """
    references: dict[str, list[str]] = {}
    for source, target in train:
        references.setdefault(source, []).append(target)
    search = {"beam": CANDIDATES, "num_best": CANDIDATES}
    found = make_pairs(model, sources, search, references)
    return ["" if each.reason else each.output for each in found]


def rows(file: str, arguments: argparse.Namespace, offset: int = 0) -> list[list[str]]:
    """Return the rows of a table of the corpus: English, and its translations."""
    path = arguments.corpora / f"tatoeba-en-{arguments.language}" / file
    lines = read_lines(path)[offset:]
    return [line.split("\t") for line in lines[: 500 if arguments.rehearse else None]]


def all_scores(
    folder: Path,
    models: Sequence[Path],
    arguments: argparse.Namespace,
    search: Table | None = None,
    *,
    reverse: bool = False,
) -> Table:
    """Return the scores of the validation set, and of the test set if it is read."""
    return {
        part: scores(folder, models, part, arguments, search, reverse=reverse)
        for part in ("dev", "test")
        if part == "dev" or arguments.test or score_file(folder, part).is_file()
    }


def scores(
    folder: Path,
    models: Sequence[Path],
    part: str,
    arguments: argparse.Namespace,
    search: Table | None = None,
    *,
    reverse: bool = False,
) -> Table:
    """Return BLEU, by one and by all references, and chrF; each is translated once."""

    def compute() -> Table:
        sources, *columns = zip_longest(*rows(f"{part}.allrefs.tsv", arguments))
        if reverse:
            sources, columns = columns[0], [sources]
        if len(models) == 1 and search is None:
            outputs = load_predictor(models[0]).predict(sources)
        else:
            outputs = load(models).translate(sources, **(search or {}))
        first = bleu(outputs, columns[0])
        every = BLEU()
        return {
            "bleu": first.value,
            "signature": first.signature,
            "bleu_all_references": every.corpus_score(outputs, columns).score,
            "signature_all_references": str(every.get_signature()),
            "chrf": chrf(outputs, columns[0]).value,
        }

    return computed_once(score_file(folder, part), compute)


def score_file(folder: Path, part: str) -> Path:
    """Return where the scores of a part are kept."""
    return folder / f"{part}.json"


def means(runs: Sequence[Table]) -> Table:
    """Return mean and standard deviation of BLEU of each part over seeds."""
    found = {}
    for part in ("dev", "test"):
        for name in ("bleu", "bleu_all_references"):
            values = [
                run["scores"][part][name] for run in runs if part in run["scores"]
            ]
            if values:
                found[f"{part}_{name}"] = mean_and_deviation(values)
    return found


if __name__ == "__main__":
    main()
