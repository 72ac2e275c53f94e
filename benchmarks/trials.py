"""Trials: train one recipe with one seed, and score its best model on a test set once.

A trial is resumed where it was stopped, and one that is done is not run again: its
figures stand in ``trial.json`` in its folder. Seeds may be trained one by one, on
several machines: a result file keeps the runs of other seeds with the same settings.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from result_file import Measurement, add_options, machine, own_seconds, place_of

from headwise.cli.build_recipe import resolve_checked
from headwise.cli.prepare_and_train import prepare_corpus
from headwise.cli.translate_and_score import predict_and_score
from headwise.data.prepared import PreparedCorpus
from headwise.inference.load import load_predictor
from headwise.inference.predictor import Predictor
from headwise.recipe import Recipe
from headwise.reports.history import entries
from headwise.run_folder.paths import LOG, has_checkpoints
from headwise.run_folder.run import train_run
from headwise.settings import as_table, merged
from headwise.storage import write_json
from headwise.tasks import TASKS
from headwise.training.state import LIVE, TrainingState

Table = dict[str, Any]

REHEARSAL = {"steps": 4, "warmup_steps": 2, "validate_every": 2, "batch_tokens": 512}
"""Settings of training with which a rehearsal ends in seconds."""

MICRO_BEFORE: Table = {"weight_decay": 0.0, "on_plateau": "stop"}
"""Settings of training that the preset micro had when most trials ran."""

CURVE_POINTS = 50
"""Points of a learning curve at most, validations apart."""


def parse_trial_options(
    parser: argparse.ArgumentParser, results: Path
) -> argparse.Namespace:
    """Parse with ``--work``, ``--seeds`` and the options of ``result_file`` added.

    A rehearsal has one seed.
    """
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs")
    parser.add_argument(
        "--seeds", type=lambda text: [*map(int, text.split(","))], default=[1, 2, 3]
    )
    add_options(parser, results)
    arguments = parser.parse_args()
    if arguments.rehearse:
        arguments.seeds = arguments.seeds[:1]
    return arguments


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--set`` and ``--device``, for benchmarks that can train otherwise."""
    parser.add_argument(
        *("--set", "-s"),
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="a setting on top of the recipe's, as of headwise train",
    )
    parser.add_argument("--device", default="cpu", help="what trains: cpu or cuda")


def recipe_of(
    file: Path, extra: Mapping[str, Any], folder: Path, assignments: Iterable[str] = ()
) -> Recipe:
    """Return the recipe of ``file`` with ``extra`` on top, for a trial in ``folder``.

    ``assignments`` are those of ``--set``. Models that it starts from are opened.
    """
    return resolve_checked(file=file, extra=extra, out=folder, assignments=assignments)


def run_trial(
    folder: Path,
    recipe: Recipe,
    test: tuple[Sequence[str], Sequence[str]],
    metrics: Sequence[str] = (),
    scores_of: Callable[[Predictor], dict[str, float]] | None = None,
    device: str = "cpu",
) -> Table:
    """Train ``recipe`` in ``folder``, score it on ``test``; return the figures.

    Training is on ``device``, and the test on the processor.

    ``metrics`` are those of the task unless they are given; ``scores_of`` takes the
    place of both where the test has other labels than the training.
    """
    done = folder / "trial.json"
    if done.is_file():
        found: Table = json.loads(done.read_text(encoding="utf-8"))
        return found
    corpus = prepare_corpus(folder, recipe)
    state, trained = train_trial(folder, recipe, corpus, device)
    inputs, references = test
    model = load_predictor(folder)
    if scores_of:
        scores = scores_of(model)
    else:
        names = metrics or TASKS[recipe.task].final_measures
        found_scores, _ = predict_and_score(model, inputs, references, names)
        scores = {each.name: each.value for each in found_scores}
    figures = {
        "seed": recipe.seed,
        "validation": state.best_value,
        "test": scores,
        "test_examples": len(inputs),
        **trained,
    }
    write_json(done, figures)
    return figures


def learning_curve(log: Path, measure: str) -> Table:
    """Return the learning curve of a run: pairs of updates and a value.

    ``loss`` has the mean training loss of each of up to ``CURVE_POINTS`` parts of the
    training, by its last update; ``validation`` has what each validation measured.
    """
    updates, validations = [], []
    for entry in entries(log):
        if entry["what"] == "update":
            updates.append((entry["step"], entry["loss"]))
        elif entry["what"] == "validation" and entry["name"] == LIVE:
            scores = entry["scores"]
            value = scores[measure]["value"] if measure in scores else entry["loss"]
            validations.append([entry["step"], float(f"{value:.4g}")])
    size = max(1, math.ceil(len(updates) / CURVE_POINTS))
    parts = [updates[start : start + size] for start in range(0, len(updates), size)]
    loss = [
        [part[-1][0], float(f"{statistics.mean(loss for _, loss in part):.4g}")]
        for part in parts
    ]
    return {"measure": measure, "loss": loss, "validation": validations}


def computed_once(path: Path, compute: Callable[[], Table]) -> Table:
    """Return the figures in ``path``; where there are none, compute and keep them."""
    if not path.is_file():
        write_json(path, compute())
    found: Table = json.loads(path.read_text(encoding="utf-8"))
    return found


def mean_and_deviation(values: Sequence[float]) -> Table:
    """Return the mean and the standard deviation, which one value has none of."""
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.mean(values), "deviation": deviation}


def train_trial(
    folder: Path, recipe: Recipe, corpus: PreparedCorpus, device: str = "cpu"
) -> tuple[TrainingState, Table]:
    """Train in ``folder``; return the final state and the figures of the training."""
    state, processor_minutes = timed_training(folder, recipe, corpus, device)
    return state, {
        "updates": state.step,
        "tokens": state.tokens,
        "minutes": state.seconds / 60,
        "processor_minutes": processor_minutes,
        "curve": learning_curve(folder / LOG, recipe.training.measure),
        **origin(recipe, device),
    }


def timed_training(
    folder: Path, recipe: Recipe, corpus: PreparedCorpus, device: str = "cpu"
) -> tuple[TrainingState, float | None]:
    """Train in ``folder``; return the final state and the processor minutes of it.

    They count validations and the processes that training starts, and, unlike minutes
    of the clock, no other program. None where an earlier process trained a part.
    """
    is_resumed = has_checkpoints(folder)
    began = own_seconds()
    state = train_run(folder, recipe, corpus, device=device)
    return state, None if is_resumed else (own_seconds() - began) / 60


def origin(recipe: Recipe, device: str = "cpu") -> Table:
    """Return where and when a run was, and a digest of its settings.

    The seed, where data and first weights come from, and the backend that trains are no
    part of it; the backend is named beside it if it was asked for.
    """
    others = {"seed", "data", "initialize_from"}
    table = {name: x for name, x in as_table(recipe).items() if name not in others}
    table = merged(table, {"training": {"backend": "auto"}})
    backend = recipe.training.backend
    asked_for = {} if backend == "auto" else {"backend": backend}
    text = json.dumps(table, sort_keys=True, default=str)
    facts = machine()
    gpu = {} if device == "cpu" else {"gpu": torch.cuda.get_device_name(device)}
    return {
        "settings": hashlib.sha256(text.encode()).hexdigest()[:12],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {
            **{name: facts[name] for name in ("processor", "family", "cores")},
            **gpu,
        },
        **asked_for,
    }


def add_run(known: Sequence[Table], run: Table) -> list[Table]:
    """Return ``run`` and the known runs of other seeds with its settings, by seed."""
    kept = [
        each
        for each in known
        if each["seed"] != run["seed"] and each.get("settings") == run["settings"]
    ]
    return sorted([*kept, run], key=lambda each: int(each["seed"]))


def add_to_ledger(
    arguments: argparse.Namespace,
    measurement: Measurement,
    path: Sequence[str],
    run: Table,
    changes: Table | None,
    means: Callable[[list[Table]], Table],
    *,
    by: str = "languages",
) -> None:
    """Add the figures of a run to the result file, at ``path`` below ``by``.

    It is read again for each run: another process may have added its own.
    """
    results: Path = arguments.default_out
    known = json.loads(results.read_text()) if results.is_file() else {}
    found = table = known.get(by, {})
    *outer, name = path
    for each in outer:
        table = table.setdefault(each, {})
    runs = add_run(table.get(name, {}).get("runs", []), run)
    table[name] = {"changes": changes, "runs": runs, **means(runs)}
    measurement.write(place_of(arguments), {by: found})


def run_data_trials(
    description: str | None,
    results: Path,
    sources: Sequence[str],
    *,
    data: Iterable[str],
    trials: Mapping[str, Table],
    trial: Callable[[str, str, int, argparse.Namespace], Table],
    means: Callable[[list[Table]], Table],
) -> None:
    """Run a command that does trials on several data sets, and keep them in a ledger.

    ``trial`` takes the names of a data set and of a trial, the seed and the options.
    """
    parser = argparse.ArgumentParser(description=description)
    names = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--only", type=names, default=[*trials])
    parser.add_argument("--data", type=names, default=[*data])
    add_training_options(parser)
    arguments = parse_trial_options(parser, results)
    measurement = Measurement.begin(sources)
    for name, trial_name, seed in product(
        arguments.data, arguments.only, arguments.seeds
    ):
        run = trial(name, trial_name, seed, arguments)
        print(json.dumps({name: {trial_name: run}}), file=sys.stderr)
        path, changes = [name, trial_name], trials[trial_name]
        add_to_ledger(arguments, measurement, path, run, changes, means, by="data")


def summary(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Return mean, deviation and range of the first metric over the runs."""
    first = next(iter(runs[0]["test"]))
    values = [each["test"][first] for each in runs]
    return {
        "metric": first,
        **mean_and_deviation(values),
        "least": min(values),
        "most": max(values),
        **mean_minutes(runs),
    }


def mean_minutes(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Return the mean of the minutes of training, and of those of processors.

    The latter are of the runs that have them.
    """
    return {
        f"mean_{name}": statistics.mean(values)
        for name in ("minutes", "processor_minutes")
        if (values := [each[name] for each in runs if each.get(name) is not None])
    }
