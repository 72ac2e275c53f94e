"""Compare the Transformer with what it replaced, at equal budgets, by length.

python benchmarks/what_attention_replaced.py --corpora FOLDER --work FOLDER
    [--only gru,gru-none] [--tasks translation,copy] [--seeds 1,2,3] [--test]

Every kind takes the same updates of the same batches, by PyTorch on one thread, in the
task

translation  English to French sentences of Tatoeba, of which 1 to 4 are joined for
             training, and 1, 2, 4, 8 and 16 to be translated: always the same ones,
             so that only how many are together differs;
copy         random strings of symbols, to be copied: 1 to 20 for training, and 5 to 80.

Outputs are found by greedy search. Scores are of the validation set, by which learning
rates may be chosen (``--learning-rate``, whose trials stand under a name of their own);
``--test`` reads the test set, once a trial. Times are of the processor. The figures of
kinds and seeds that ran before stay in the result file: it is the ledger.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from result_file import TRAINING, TRANSLATION, Measurement, own_seconds, place_of
from trials import add_run, parse_trial_options, recipe_of, run_trial

from headwise.decoding.settings import DecodingSettings
from headwise.inference.load import load_predictor
from headwise.metrics.bleu_chrf_ter import bleu
from headwise.settings import merged
from headwise.storage import write_json, write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "what_attention_replaced.json"
SOURCES = [*TRAINING, *TRANSLATION]

Table = dict[str, Any]
Pairs = list[tuple[str, str]]

SIZES: Table = {"d_model": 128, "d_ff": 512, "num_heads": 4, "dropout": 0.1}
DEEP: Table = {"encoder_layers": 4, "decoder_layers": 4}
SHALLOW: Table = {"encoder_layers": 2, "decoder_layers": 2}
"""Of recurrent models, whose layers have no residual connections around them."""

KINDS: dict[str, Table] = {
    "transformer": {"kind": "transformer", **DEEP},
    "convolutional": {"kind": "convolutional", **DEEP},
    "dilated": {"kind": "dilated", **DEEP},
    **{kind: {"kind": kind, **SHALLOW} for kind in ("elman", "gru", "lstm")},
    **{
        f"{kind}-{attention}": {
            "kind": kind,
            "recurrent_attention": attention,
            **SHALLOW,
        }
        for kind in ("gru", "lstm")
        for attention in ("none", "cosine", "dot")
    },
}
"""Name of a trial -> its architecture, besides ``SIZES``."""

TRAINED: dict[str, Table] = {
    "translation": {"steps": 2000, "warmup_steps": 200, "batch_tokens": 2048},
    "copy": {"steps": 1500, "warmup_steps": 150, "batch_tokens": 1024},
}
"""Task -> its updates, and tokens of each."""

TRAINING_SETTINGS: Table = {
    **{"optimizer": "adam", "learning_rate": 0.002, "schedule": "linear"},
    **{"backend": "torch", "processes": 1, "average_last": 1},
}
REHEARSAL: Table = {"steps": 4, "warmup_steps": 2, "batch_tokens": 512}
VALIDATIONS = 4

MOST_JOINED = 4
JOINED = (1, 2, 4, 8, 16)
SYMBOLS = "abcdefghijklmnopqrstuvwxyz"
LONGEST_COPIED = 20
COPIED = (5, 10, 20, 40, 80)
STRINGS, STRINGS_OF_A_LENGTH = 50_000, 200
DATA_SEED = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*KINDS])
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=[*TASKS])
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--test", action="store_true", help="read the test sets")
    arguments = parse_trial_options(parser, RESULTS)
    for given, known in ((arguments.only, KINDS), (arguments.tasks, TASKS)):
        if unknown := ", ".join(each for each in given if each not in known):
            parser.error(f"there is no {unknown}; choose from {', '.join(known)}")
    torch.set_num_threads(1)
    measurement = Measurement.begin(SOURCES)
    for task in arguments.tasks:
        for kind in arguments.only:
            for seed in arguments.seeds:
                run = trial(task, kind, seed, arguments)
                print(json.dumps({name_of(kind, arguments): run}), file=sys.stderr)
                place = place_of(arguments)
                # read again after each trial: another process may have added its own
                known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
                tasks: Table = known.get("tasks", {})
                trials = tasks.setdefault(task, {})
                name = name_of(kind, arguments)
                runs = add_run(trials.get(name, {}).get("runs", []), run)
                trials[name] = {"model": KINDS[kind], "runs": runs, **means(runs)}
                measurement.write(place, {"tasks": tasks})


def name_of(kind: str, arguments: argparse.Namespace) -> str:
    """Return the name of a kind, and of its learning rate if it was given."""
    rate = arguments.learning_rate
    return kind if rate is None else f"{kind}-rate-{rate}"


def trial(task: str, kind: str, seed: int, arguments: argparse.Namespace) -> Table:
    """Train one kind with one seed; return its figures by length."""
    folder = arguments.work / f"{task}-{name_of(kind, arguments)}-{seed}"
    make = TASKS[task]
    trained = REHEARSAL if arguments.rehearse else TRAINED[task]
    table: Table = {
        "seed": seed,
        "preset": "tiny",
        "model": {**SIZES, **KINDS[kind]},
        "training": {
            **TRAINING_SETTINGS,
            **trained,
            "validate_every": trained["steps"] // VALIDATIONS,
        },
        "decoding": {"beam": 1, "split_sentences": False},
    }
    if arguments.learning_rate is not None:
        table["training"]["learning_rate"] = arguments.learning_rate
    recipe = recipe_of(NO_RECIPE, merged(table, make.settings(arguments)), folder)
    validation = make.of_length(arguments, "dev", make.lengths[0])
    run = run_trial(folder, recipe, split(validation), make.metrics)
    del run["test"], run["test_examples"]  # the validation set once more
    run["parameters"] = count_parameters(folder)
    for part in ("dev", "test") if arguments.test else ("dev",):
        run[part] = {
            str(length): measured(task, folder, part, length, arguments)
            for length in make.lengths
        }
    return run
