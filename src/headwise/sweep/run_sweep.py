"""Run a sweep in its folder: check, prepare, train, report; or go on with one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headwise.errors import DataError, HeadwiseError
from headwise.recipe import Recipe
from headwise.run_folder.lock import locked
from headwise.storage import check_writable, write_text
from headwise.sweep.corpora import Corpora
from headwise.sweep.ledger import (
    PLAN,
    REPORT,
    Ledger,
    Plan,
    Search,
    Trial,
    check_same_sweep,
    check_sweep_folder,
    read_ledger,
)
from headwise.sweep.optuna_search import OptunaSearch
from headwise.sweep.recipes import (
    RecipeOf,
    shared_settings,
    trial_recipe,
    with_later_settings,
)
from headwise.sweep.report import sweep_report
from headwise.sweep.runner import Runner
from headwise.sweep.space import (
    Choices,
    Settings,
    Varied,
    assignments_of,
    combinations,
)
from headwise.sweep.table import Baseline, Row, make_table
from headwise.wording import count_of, without_surrogates

SECONDS_BETWEEN_REPORTS = 30.0


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a command asks for."""

    folder: Path
    recipe_of: RecipeOf
    base: Recipe
    """The recipe of the first combination, as ``check_recipes`` returns it."""

    varied: Sequence[Varied]
    search: Search
    seeds: Sequence[int]
    trials: int | None
    """Combinations that the search proposes; None for a grid."""

    device: str
    threads: int
    jobs: int
    prunes: bool
    retries: bool
    """Run trials again that failed."""

    baseline: Baseline


def run_sweep(
    request: Request,
    say: Callable[[str], None],
    show: Callable[[Ledger, Sequence[Row]], None],
) -> tuple[Ledger, list[Row]]:
    """Run all trials that are left; return the ledger and the rows of its table.

    ``say`` is told messages, and ``show`` the table when a trial has ended and others
    are left. Raises ``UsageError`` for a folder that holds something else or in which
    another process works, ``SettingsError`` for settings that differ from those the
    sweep was begun with, ``DataError`` for text that cannot be used or has changed.
    """
    folder = request.folder
    base = request.base
    with locked(folder):
        ledger = _open_ledger(request)
        corpora = Corpora(folder, seed=base.seed, say=say)
        _check_corpora(ledger, request, corpora)
        _release(ledger, request)
        ledger.save_plan()
        ledger.save()
        search = None
        if request.search == "optuna":
            lower = base.training.lower_is_better
            search = OptunaSearch(request.varied, base.seed, lower)
        updates = _Updates(request, ledger, say, show)
        runner = Runner(
            ledger,
            request.recipe_of,
            corpora,
            jobs=request.jobs,
            prunes=request.prunes,
            search=search,
            say=say,
            on_change=lambda trial: updates.add(runner, trial),
        )
        say(_announced(ledger, request))
        try:
            runner.run()
        except BaseException:
            show(ledger, updates.finish(runner, tests=False))
            raise
        return ledger, updates.finish(runner, tests=True)


def _open_ledger(request: Request) -> Ledger:
    """Return the ledger in the folder, with the trials of a grid added; not saved.

    A sweep of which no trial was begun may be started again otherwise.
    """
    folder = request.folder
    check_sweep_folder(folder)  # again, now that no other process works there
    paths = [each.path for each in request.varied]
    plan = Plan(
        recipe=shared_settings(request.base, paths),
        varied=[each.as_table() for each in request.varied],
        search=request.search,
        seeds=list(request.seeds),
        trials=request.trials,
        device=request.device,
        threads=request.threads,
        seed=request.base.seed,
    )
    ledger = read_ledger(folder)
    if ledger is None or all(each.is_new for each in ledger.trials):
        check_writable(folder / PLAN)
        ledger = Ledger(folder, plan)
    else:
        first = _first_combination(ledger.plan)
        if all(path in first for path in paths):
            now = request.recipe_of(assignments_of(first))
            plan = Plan(**{**vars(plan), "recipe": shared_settings(now, paths)})
        begun = with_later_settings(ledger.plan.recipe, paths)
        check_same_sweep(replace(ledger.plan, recipe=begun), plan, folder)
        ledger.plan = plan
    if request.search == "grid":
        lists = [each for each in request.varied if isinstance(each, Choices)]
        for seed in request.seeds:
            for settings in combinations(lists):
                ledger.add(settings, seed)
    else:
        for settings in {x.combination: x.settings for x in ledger.trials}.values():
            for seed in request.seeds:
                ledger.add(settings, seed)
    return ledger


def _first_combination(plan: Plan) -> Settings:
    """Return the combination whose recipe the plan holds."""
    return {
        each["path"]: each["values"][0] if "values" in each else each["low"]
        for each in plan.varied
    }


def _check_corpora(ledger: Ledger, request: Request, corpora: Corpora) -> None:
    """Prepare the text of all trials that are known; refuse text that has changed."""
    for trial in ledger.trials:
        if trial.state == "failed" and not trial.corpus:
            continue  # its settings were refused
        recipe = trial_recipe(request.recipe_of, trial.settings, trial.seed)
        corpus = corpora.get(recipe)
        if trial.corpus not in ("", corpus.name):
            raise DataError(
                f"the text of trial {trial.trial} in {ledger.folder} has changed since "
                "the sweep was begun, so its trials could not be compared; restore the "
                "text, or choose another folder"
            )
        trial.corpus = corpus.name
        trial.validation_text = corpus.validation_text


def _release(ledger: Ledger, request: Request) -> None:
    """Let trials wait again that were interrupted, or that are asked for again."""
    for trial in ledger.trials:
        again = trial.state == "running"
        again |= trial.state == "stopped early" and not request.prunes
        again |= trial.state == "failed" and request.retries
        if again:
            trial.state, trial.reason, trial.error = "waiting", "", ""


def _announced(ledger: Ledger, request: Request) -> str:
    count = len(ledger.trials)
    left = sum(each.state == "waiting" for each in ledger.trials)
    if request.trials is not None:
        count = request.trials * len(request.seeds)
        left += count - len(ledger.trials)
    text = f"{count_of(count, 'trial')}, {left} to run"
    if left:
        text += f", {min(request.jobs, left)} at a time"
        text += f", with {count_of(request.threads, 'thread')} each"
    return text


class _Updates:
    """Writes the report and shows the table while trials run."""

    def __init__(
        self,
        request: Request,
        ledger: Ledger,
        say: Callable[[str], None],
        show: Callable[[Ledger, Sequence[Row]], None],
    ) -> None:
        self._request = request
        self._ledger = ledger
        self._say = say
        self._show = show
        self._written = -SECONDS_BETWEEN_REPORTS
        self._failed = False

    def add(self, runner: Runner, trial: Trial) -> None:
        """Handle a change of ``trial``."""
        has_ended = trial.state not in ("running", "waiting")
        is_old = time.monotonic() - self._written >= SECONDS_BETWEEN_REPORTS
        if not has_ended and not is_old:
            return
        rows = self._rows(tests=False)
        self._write(runner, rows, is_running=True)
        left = any(x.state in ("running", "waiting") for x in self._ledger.trials)
        if has_ended and left:
            self._show(self._ledger, rows)

    def finish(self, runner: Runner, *, tests: bool) -> list[Row]:
        """Write the report for the last time; return the rows of the table."""
        rows = self._rows(tests=tests)
        self._write(runner, rows, is_running=False)
        return rows

    def _rows(self, *, tests: bool) -> list[Row]:
        return make_table(self._ledger, baseline=self._request.baseline, tests=tests)

    def _write(self, runner: Runner, rows: Sequence[Row], *, is_running: bool) -> None:
        """Write the page; one that cannot be written ends no sweep."""
        self._written = time.monotonic()
        try:
            text = sweep_report(
                self._ledger, rows, runner.curves, is_running=is_running
            )
            write_text(self._ledger.folder / REPORT, without_surrogates(text))
        except HeadwiseError as error:
            if not self._failed:
                self._failed = True
                self._say(f"{REPORT} could not be updated: {error}")


def check_any_ended_well(ledger: Ledger) -> None:
    """Raise ``TrialsFailedError`` if every trial has failed."""
    failed = [each for each in ledger.trials if each.state == "failed"]
    if failed and len(failed) == len(ledger.trials):
        raise TrialsFailedError(failed[0])


class TrialsFailedError(HeadwiseError):
    """Every trial of a sweep has failed; the exit code is that of the first."""

    def __init__(self, first: Trial) -> None:
        super().__init__(
            f"every trial has failed; trial {first.trial}: {first.error}. --retry runs "
            "them again"
        )
        self.exit_code = first.error_code or 1
