"""List runs: state, progress, and scores of the best model."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any

from headwise.errors import SettingsError, UsageError
from headwise.metrics.score import with_interval
from headwise.reports.formatting import columns
from headwise.reports.history import (
    RUNNING,
    History,
    ValidationRecord,
    read_validations,
)
from headwise.run_folder.paths import (
    BEST,
    CHECKPOINTS,
    LOG,
    PREPARED,
    RECIPE,
    WEIGHTS,
)
from headwise.settings import read_toml
from headwise.training.state import LIVE
from headwise.wording import duration

WEIGHTS_OF_BEST = (BEST, WEIGHTS)

INNER_FOLDERS = (BEST, CHECKPOINTS, PREPARED, "tensorboard", "tokenizer", "corpus")
"""Folders inside a run, which are not searched for runs."""

METADATA_KEY = "__metadata__"
"""Entry of a safetensors header that is not a tensor."""

MAX_HEADER_BYTES = 100_000_000
"""Longest header of a weights file that is read."""

ENDED = "ended"
DIED = "died"

ENDINGS = {
    "stopped": "stopped",
    "lost another process": "stopped",
    "failed": "failed",
}
"""States of runs that can be resumed, by the reason of their end."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """One row of the list."""

    folder: str
    state: str
    """running, ended, stopped, failed, or died (without an end entry in the log)."""
    reason: str
    step: int
    steps: int | None
    """Number of updates planned."""
    seconds: float
    best: ValidationRecord | None
    parameters: int | None
    """Of the best model."""
    corpora: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return the facts for JSON output, without sample texts."""
        table = asdict(self)
        if self.best is not None:
            keys = ("step", "name", "loss", "scores", "seconds")
            table["best"] = {key: table["best"][key] for key in keys}
        return table


def find_runs(folder: Path, depth: int = 3) -> Iterator[Path]:
    """Yield ``folder`` if it is a run, and runs up to ``depth`` folders below it."""
    if is_run(folder):
        yield folder
    if not depth:
        return
    try:
        inside = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError:
        return  # a folder without read permission
    for each in inside:
        if each.name in INNER_FOLDERS or each.name.startswith("."):
            continue
        if each.is_dir(follow_symlinks=False):
            yield from find_runs(folder / each.name, depth - 1)


def is_run(folder: Path) -> bool:
    """Return whether training was started in ``folder``."""
    return (folder / RECIPE).is_file() and (
        (folder / LOG).is_file() or (folder / CHECKPOINTS).is_dir()
    )


def check_run(folder: Path) -> None:
    """Raise ``UsageError`` if ``folder`` is not a run, and name what is missing."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder; name a run folder, with a {RECIPE} and a {LOG}"
        )
    if not is_run(folder):
        raise UsageError(
            f"{folder} is not a run: it has no {RECIPE} with a {LOG}; headwise runs "
            "FOLDER lists the runs in a folder"
        )


def run_facts(folder: Path, *, is_held: bool) -> RunFacts:
    """Read the facts of a run; ``is_held``: whether a process is working in it."""
    recipe = recipe_table(folder)
    history = read_validations(folder / LOG)
    steps = recipe.get("training", {}).get("steps")
    return RunFacts(
        folder=str(folder),
        state="running" if is_held else run_state(history),
        reason="" if is_held else history.ended,
        step=history.step,
        steps=steps if isinstance(steps, int) else history.planned,
        seconds=history.seconds,
        best=history.best,
        parameters=num_parameters(folder.joinpath(*WEIGHTS_OF_BEST)),
        corpora=corpora(recipe),
    )


def run_state(history: History) -> str:
    """Return the state of a run that no process is working in."""
    if history.ended == RUNNING:
        return DIED
    return ENDINGS.get(history.ended, ENDED)


def recipe_table(folder: Path) -> dict[str, Any]:
    """Read the recipe without checks; return {} if it cannot be parsed."""
    try:
        table = read_toml(folder / RECIPE)
    except SettingsError:
        return {}
    return {
        name: each
        for name, each in table.items()
        if name not in ("training", "data") or isinstance(each, dict)
    }


def corpora(recipe: Mapping[str, Any]) -> list[str]:
    """Return the training files of a run: ``train.en → train.de``."""
    entries = recipe.get("data", {}).get("corpora", [])
    tables = [each for each in entries or [] if isinstance(each, dict)]
    return [
        " → ".join(
            PurePath(str(each[side])).name
            for side in ("source", "target")
            if side in each
        )
        for each in tables
    ]


def num_parameters(weights: Path) -> int | None:
    """Count parameters from the header of a weights file; None if it is unreadable."""
    try:
        with weights.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > MAX_HEADER_BYTES:
                return None
            header = json.loads(file.read(length))
        shapes = [
            each["shape"] for name, each in header.items() if name != METADATA_KEY
        ]
        return sum(int(math.prod(shape)) for shape in shapes)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def as_lines(runs: list[RunFacts]) -> list[str]:
    """Return the runs as lines of a table."""
    head = ("run", "state", "step", "time", "best model", "parameters", "text")
    return columns([head, *(_row(each) for each in runs)])


def _row(run: RunFacts) -> tuple[str, ...]:
    planned = "" if run.steps is None else f"/{run.steps:,}"
    more = f" and {len(run.corpora) - 1} more" if len(run.corpora) > 1 else ""
    return (
        run.folder,
        run.state,
        f"{run.step:,}{planned}",
        duration(run.seconds),
        "–" if run.best is None else describe_best(run.best),
        "–" if run.parameters is None else f"{run.parameters:,}",
        f"{run.corpora[0]}{more}" if run.corpora else "–",
    )


def describe_best(best: ValidationRecord) -> str:
    """Return scores and step of the best model."""
    scores = ", ".join(
        f"{each.name} "
        + with_interval(each.value, each.interval, each.higher_is_better)
        for each in best.scores.values()
    )
    where = f"step {best.step:,}" if best.name == LIVE else best.name
    return f"{scores or f'loss {best.loss:.3f}'} ({where})"
