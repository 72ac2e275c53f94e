"""Runs in a list: what each is, how far it is, how good its best model is."""

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
from headwise.reports.history import NOW, RUNNING, History, Look, read_looks
from headwise.settings import read_toml
from headwise.wording import duration

RECIPE = "recipe.toml"
LOG = "log.jsonl"
CHECKPOINTS = "checkpoints"
WEIGHTS = ("best", "model.safetensors")

OURS = ("best", CHECKPOINTS, "prepared", "tensorboard", "tokenizer", "corpus")
"""Folders of a run in which no other run is looked for."""

ABOUT_FILE = "__metadata__"
"""What in the header of a weights file is no tensor."""

MOST_HEADER_BYTES = 100_000_000
"""More than any header of a weights file holds; what says more is none of ours."""

ENDED = "ended"
DIED = "died"

ENDINGS = {
    "stopped": "stopped",
    "lost another process": "stopped",
    "failed": "failed",
}
"""States of runs that are to be gone on with, by why they ended."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """One line of the list."""

    folder: str
    state: str
    """running, ended, stopped, failed, or died: it ended and could not say so."""
    reason: str
    step: int
    steps: int | None
    """Updates that are planned."""
    seconds: float
    best: Look | None
    parameters: int | None
    """Of the best model."""
    corpora: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return what a program may want, without texts."""
        table = asdict(self)
        if self.best is not None:
            kept = ("step", "name", "loss", "scores", "seconds")
            table["best"] = {key: table["best"][key] for key in kept}
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
        return  # a folder that may not be read holds no run that could be shown
    for each in inside:
        if each.name in OURS or each.name.startswith("."):
            continue
        if each.is_dir(follow_symlinks=False):
            yield from find_runs(folder / each.name, depth - 1)


def is_run(folder: Path) -> bool:
    """Tell whether training was begun in ``folder``."""
    return (folder / RECIPE).is_file() and (
        (folder / LOG).is_file() or (folder / CHECKPOINTS).is_dir()
    )


def check_run(folder: Path) -> None:
    """Refuse what is no run, with what is missing."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder; name the folder of a run, which holds a "
            f"{RECIPE} and a {LOG}"
        )
    if not is_run(folder):
        raise UsageError(
            f"{folder} is not a run: it has no {RECIPE} with a {LOG} beside it; "
            "headwise runs lists those below a folder"
        )


def run_facts(folder: Path, *, is_held: bool) -> RunFacts:
    """Look at a run; ``is_held`` says whether a process is working in it."""
    recipe = recipe_table(folder)
    history = read_looks(folder / LOG)
    steps = recipe.get("training", {}).get("steps")
    return RunFacts(
        folder=str(folder),
        state="running" if is_held else state_of(history),
        reason="" if is_held else history.ended,
        step=history.step,
        steps=steps if isinstance(steps, int) else history.planned,
        seconds=history.seconds,
        best=history.best,
        parameters=num_parameters(folder.joinpath(*WEIGHTS)),
        corpora=corpora(recipe),
    )


def state_of(history: History) -> str:
    """Say how a run stands that no process is working in."""
    if history.ended == RUNNING:
        return DIED
    return ENDINGS.get(history.ended, ENDED)


def recipe_table(folder: Path) -> dict[str, Any]:
    """Read the recipe as it stands; of another version, or broken, it is no error."""
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
    """Name the text of a run by its files: ``train.en → train.de``."""
    named = recipe.get("data", {}).get("corpora", [])
    tables = [each for each in named if isinstance(each, dict)] if named else []
    return [
        " → ".join(
            PurePath(str(each[side])).name
            for side in ("source", "target")
            if side in each
        )
        for each in tables
    ]


def num_parameters(weights: Path) -> int | None:
    """Count the weights in a file from its header alone; None where there is none."""
    try:
        with weights.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > MOST_HEADER_BYTES:
                return None
            header = json.loads(file.read(length))
        shapes = [each["shape"] for name, each in header.items() if name != ABOUT_FILE]
        return sum(int(math.prod(shape)) for shape in shapes)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def as_lines(runs: list[RunFacts]) -> list[str]:
    """Write runs below each other in columns."""
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
        "–" if run.best is None else best_in_words(run.best),
        "–" if run.parameters is None else f"{run.parameters:,}",
        f"{run.corpora[0]}{more}" if run.corpora else "–",
    )


def best_in_words(best: Look) -> str:
    """Say how good a model is and which it is."""
    scores = ", ".join(
        f"{each.name} "
        + with_interval(each.value, each.interval, each.higher_is_better)
        for each in best.scores.values()
    )
    where = f"step {best.step:,}" if best.name == NOW else best.name
    return f"{scores or f'loss {best.loss:.3f}'} ({where})"
