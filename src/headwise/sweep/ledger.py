"""The ledger of a sweep: ``sweep.json``, what was asked for, and ``trials.jsonl``.

``trials.jsonl`` has one trial a line: settings, seed, state, validation value, updates,
tokens and minutes. Both are written atomically at each change, so a sweep that is
killed at any moment goes on from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from headwise import storage
from headwise.errors import ModelError, SettingsError, UsageError
from headwise.run_folder.lock import LOCK
from headwise.settings import differences
from headwise.sweep.space import Settings

PLAN = "sweep.json"
TRIALS = "trials.jsonl"
FOLDERS = "trials"
CORPORA = "corpora"
REPORT = "report.html"

OUTPUTS = "validation-outputs.jsonl"
"""File in the run folder of a finished trial: source, reference and output of its best
model, a line for each pair that validations score."""

FORMAT = 1

State = Literal["waiting", "running", "finished", "stopped early", "failed"]
"""A trial that was interrupted is waiting again, with the updates it has made."""

Search = Literal["grid", "optuna"]


@dataclass(kw_only=True)
class Trial:
    """One line of the ledger: one combination of settings, trained with one seed."""

    trial: int
    """Its number, from 1, which is also the name of its run folder."""

    settings: Settings
    seed: int
    state: State = "waiting"
    value: float | None = None
    """Best validation value so far, of the recipe's ``training.measure``."""

    best_step: int = 0
    """Update of that value."""

    updates: int = 0
    tokens: int = 0
    """Source and target tokens trained on, without padding."""

    minutes: float = 0.0
    """Training time, over all interruptions."""

    reason: str = ""
    """Why training ended."""

    error: str = ""
    """Why the trial failed."""

    error_code: int = 0
    """Exit code of that error."""

    corpus: str = ""
    """Name of its prepared corpus: the start of a fingerprint of text and settings."""

    validation_text: str = ""
    """Start of the SHA-256 of its validation text."""

    @property
    def key(self) -> str:
        """What tells it from all others: its settings and seed."""
        return trial_key(self.settings, self.seed)

    @property
    def combination(self) -> str:
        """What it has in common with its trials of other seeds."""
        return combination_key(self.settings)

    @property
    def is_new(self) -> bool:
        """Whether it was never trained."""
        return self.state == "waiting" and not self.updates

    @property
    def folder(self) -> str:
        """Its run folder, inside that of the sweep."""
        return f"{FOLDERS}/{self.trial:03d}"


def combination_key(settings: Mapping[str, Any]) -> str:
    """Return a text that is equal for equal settings."""
    return json.dumps(settings, sort_keys=True)


def trial_key(settings: Mapping[str, Any], seed: int) -> str:
    """Return a text that is equal for equal settings and seeds."""
    return f"{combination_key(settings)} {seed}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a sweep was asked for; a command that goes on with it must fit."""

    recipe: dict[str, Any]
    """Settings that all trials share: the recipe of the first combination, without
    those that are varied, and without the seed."""

    varied: list[dict[str, Any]]
    """What is varied: a ``path`` with ``values``, or ``low``, ``high`` and ``log``."""

    search: Search
    seeds: list[int]
    trials: int | None
    """Combinations that a search proposes; None for a grid."""

    device: str
    threads: int
    """CPU threads of each trial."""

    seed: int | None = None
    """Seed of the recipe, by which text is prepared; None: an older version began the
    sweep, and it is not known."""


@dataclass
class Ledger:
    """The plan and the trials of a sweep in ``folder``."""

    folder: Path
    plan: Plan
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._known = {each.key: each for each in self.trials}

    def find(self, settings: Mapping[str, Any], seed: int) -> Trial | None:
        """Return the trial of these settings and this seed, if there is one."""
        return self._known.get(trial_key(settings, seed))

    def add(self, settings: Settings, seed: int) -> Trial:
        """Return the trial of these settings and this seed, a new one if need be."""
        found = self.find(settings, seed)
        if found is None:
            found = Trial(trial=len(self.trials) + 1, settings=settings, seed=seed)
            self.trials.append(found)
            self._known[found.key] = found
        return found

    def save(self) -> None:
        """Write the trials if they have changed.

        Raises ``ResourceError`` if that is not possible.
        """
        lines = (json.dumps(asdict(each)) for each in self.trials)
        _write(self.folder / TRIALS, "".join(f"{line}\n" for line in lines))

    def save_plan(self) -> None:
        """Write the plan if it has changed."""
        table = {"format": FORMAT, **asdict(self.plan)}
        _write(self.folder / PLAN, json.dumps(table, indent=2) + "\n")


def read_ledger(folder: Path) -> Ledger | None:
    """Read the ledger in ``folder``; None if there is none.

    Raises ``ModelError`` for one that is damaged.
    """
    if not (folder / PLAN).is_file():
        return None
    table = storage.read_json(folder / PLAN)
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise ModelError(
            f"{folder / PLAN} is not of format {FORMAT}, which this version reads; "
            "restore it, or choose another folder"
        )
    table.setdefault("seed", Plan.seed)  # older versions did not write it
    try:
        plan = Plan(**{each.name: table[each.name] for each in fields(Plan)})
        trials = [_trial(line) for line in _lines(folder / TRIALS)]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"the ledger of {folder} was damaged or edited ({error}); restore {PLAN} "
            f"and {TRIALS}, or choose another folder"
        ) from None
    return Ledger(folder, plan, trials)


def check_sweep_folder(folder: Path) -> None:
    """Raise ``UsageError`` unless ``folder`` is new, empty, or holds a sweep."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; choose a new folder for the sweep")
    if not folder.is_dir() or (folder / PLAN).is_file():
        return
    ours = (LOCK, CORPORA, TRIALS)
    others = sorted(
        each.name
        for each in folder.iterdir()
        if each.name not in ours and not each.name.startswith(f".{PLAN}.")
    )
    if others:
        raise UsageError(
            f"{folder} is not the folder of a sweep: it contains {others[0]}; choose a "
            "folder that is new, empty or of this sweep"
        )


def check_same_sweep(before: Plan, now: Plan, folder: Path) -> None:
    """Raise ``SettingsError`` with all differences but those that may be added.

    More values of a grid, more seeds and more trials of a search may be added.
    """
    problems = [
        f"{path} was {_shown(old)} and is now {_shown(new)}"
        for path, old, new in differences(before.recipe, now.recipe)
    ]
    problems += [
        f"{name} was {getattr(before, name)} and is now {getattr(now, name)}"
        for name in ("search", "device", "threads", "seed")
        if getattr(before, name) not in (None, getattr(now, name))
    ]
    problems += _changes_of_space(before.varied, now.varied)
    missing = [each for each in before.seeds if each not in now.seeds]
    if missing:
        problems.append(
            f"seeds {', '.join(map(str, missing))} were there and are not any more"
        )
    if before.trials is not None and (now.trials or 0) < before.trials:
        problems.append(f"trials were {before.trials} and are now {now.trials}")
    if problems:
        raise SettingsError(
            [
                *problems,
                f"{folder} contains another sweep; go on with the same command, to "
                "which values, seeds and trials may be added, or choose another folder",
            ]
        )


def _changes_of_space(
    before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> list[str]:
    paths, new_paths = ([each["path"] for each in part] for part in (before, now))
    if paths != new_paths:
        return [f"{', '.join(paths)} was varied, and now {', '.join(new_paths)}"]
    problems = []
    for old, new in zip(before, now, strict=True):
        if "values" in old and "values" in new:
            missing = [each for each in old["values"] if each not in new["values"]]
            problems += [
                f"{old['path']} = {_shown(each)} was varied and is not any more"
                for each in missing
            ]
        elif dict(old) != dict(new):
            problems.append(f"{old['path']} was varied otherwise: {_shown(dict(old))}")
    return problems


def _shown(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)


def _trial(line: str) -> Trial:
    found = Trial(**json.loads(line))
    if found.state not in get_args(State):
        raise ValueError(f"{found.state!r} is not a state")
    return found


def _write(path: Path, text: str) -> None:
    """Write ``text``, unless the file holds it: a full disk may be read."""
    with suppress(OSError):
        if path.read_text(encoding="utf-8") == text:
            return
    storage.write_text(path, text)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from None
