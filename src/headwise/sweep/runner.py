"""Runs the trials of a ledger, several at a time, each in a process of its own."""

from __future__ import annotations

import selectors
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from headwise.errors import (
    DataError,
    HeadwiseError,
    ResourceError,
    SettingsError,
    UsageError,
)
from headwise.reports.history import read_validations
from headwise.run_folder.paths import LOG
from headwise.settings import as_table
from headwise.sweep.corpora import Corpora
from headwise.sweep.ledger import Ledger, Trial
from headwise.sweep.pruning import Curve, falls_behind, is_warm
from headwise.sweep.recipes import RecipeOf, trial_recipe
from headwise.sweep.running_trial import RunningTrial, was_interrupted
from headwise.sweep.space import Settings, described
from headwise.training.settings import TrainingSettings
from headwise.training.signals import StopSignals
from headwise.training.state import LIVE
from headwise.wording import count_of

POLL_SECONDS = 0.1
"""How often stop signals are checked: within the time that they are given."""

Message = dict[str, Any]


class Proposes(Protocol):
    """A search that proposes combinations."""

    def propose(self, trials: list[Trial]) -> Settings | None:
        """Return a new combination; None if there is none."""


@dataclass
class Runner:
    """Runs the trials of ``ledger`` until all have ended.

    ``on_change`` is called after each validation, and after each end, of a trial.
    """

    ledger: Ledger
    recipe_of: RecipeOf
    corpora: Corpora
    jobs: int
    prunes: bool
    search: Proposes | None
    say: Callable[[str], None]
    on_change: Callable[[Trial], None]
    curves: dict[int, Curve] = field(default_factory=dict)
    """Number of a trial -> its validations."""

    _running: list[RunningTrial] = field(default_factory=list)
    _settings: dict[int, TrainingSettings] = field(default_factory=dict)

    def run(self) -> None:
        """Run all trials that wait; a stop signal saves them, then raises."""
        for trial in self.ledger.trials:
            self.curves[trial.trial] = self._read_curve(trial)
        with StopSignals(force_exit=True) as signals:
            signals.emergency_save = self._stop_and_wait
            try:
                self._run(signals)
            finally:
                self._stop_all(signals)

    def _run(self, signals: StopSignals) -> None:
        while True:
            signals.check()
            if len(self._running) < self.jobs and (trial := self._next()) is not None:
                self._start(trial)
                continue
            if not self._running:
                return
            self._read(POLL_SECONDS)

    def _next(self) -> Trial | None:
        """Return the next trial that waits; let the search propose one if none does."""
        trials = self.ledger.trials
        waiting = next((each for each in trials if each.state == "waiting"), None)
        if waiting is not None or self.search is None:
            return waiting
        plan = self.ledger.plan
        assert plan.trials is not None
        if len({each.combination for each in trials}) >= plan.trials:
            return None
        proposed = self.search.propose(trials)
        if proposed is None:
            return None
        added = [self.ledger.add(proposed, seed) for seed in plan.seeds]
        for each in added:
            self.curves[each.trial] = Curve(each.combination)
        self.ledger.save()
        return added[0]

    def _start(self, trial: Trial) -> None:
        plan = self.ledger.plan
        try:
            recipe = trial_recipe(self.recipe_of, trial.settings, trial.seed)
            corpus = self.corpora.get(recipe)
        except (SettingsError, DataError) as error:
            # What a search proposes between two ends is not checked before.
            self._fail(trial, str(error).removeprefix("- "), error.exit_code)
            return
        trial.corpus = corpus.name
        trial.validation_text = corpus.validation_text
        order = {
            "folder": str(self.ledger.folder / trial.folder),
            "recipe": as_table(recipe),
            "corpus": str(corpus.folder),
            "device": plan.device,
            "threads": plan.threads,
        }
        trial.state, trial.error = "running", ""
        self.ledger.save()
        self._settings[trial.trial] = recipe.training
        self._running.append(RunningTrial(trial, order))
        going_on = f", going on from update {trial.updates:,}" if trial.updates else ""
        self.say(f"{name_of(trial)}: started{going_on}")

    def _read(self, timeout: float) -> None:
        """Handle the messages that come within ``timeout`` seconds."""
        with selectors.DefaultSelector() as selector:
            for each in self._running:
                selector.register(each.reports, selectors.EVENT_READ, each)
            ready = [key.data for key, _ in selector.select(timeout)]
        for running in ready:
            messages = running.read()
            if messages is None:
                self._end(running)
                continue
            for message in messages:
                self._handle(running, message)

    def _handle(self, running: RunningTrial, message: Message) -> None:
        trial, what = running.trial, message["what"]
        if what == "failed":
            running.has_ended = True
            if message.get("ends_sweep"):
                trial.state = "waiting"
                is_usage = message["code"] == UsageError.exit_code
                raise (UsageError if is_usage else ResourceError)(message["error"])
            self._fail(trial, message["error"], message["code"])
            return
        trial.value, trial.best_step = message["best_value"], message["best_step"]
        trial.tokens, trial.minutes = message["tokens"], message["minutes"]
        trial.updates = message["step"]
        if what == "validation":
            running.answer("stop" if self._is_to_stop(trial, message) else "go")
            self.ledger.save()
            self.say(f"{name_of(trial)}: update {trial.updates:,}: {_value(trial)}")
            self.on_change(trial)
            return
        running.has_ended = True
        if what == "interrupted":
            trial.state = "waiting"
            self.ledger.save()
            return
        trial.state = "finished" if what == "finished" else "stopped early"
        trial.reason = (
            message["reason"] if what == "finished" else "behind the median of others"
        )
        self._changed(trial)

    def _is_to_stop(self, trial: Trial, message: Message) -> bool:
        curve, settings = self.curves[trial.trial], self._settings[trial.trial]
        curve.add(message["step"], message["value"])
        return (
            self.prunes
            and is_warm(
                step=message["step"],
                last_step=message["last_step"],
                warmup_steps=settings.warmup_steps,
                minutes=message["minutes"],
                max_minutes=settings.max_minutes,
            )
            and falls_behind(
                curve, self.curves.values(), lower_is_better=settings.lower_is_better
            )
        )

    def _end(self, running: RunningTrial) -> None:
        """Handle the end of a process."""
        self._running.remove(running)
        code = running.close()
        if running.has_ended:
            return
        if was_interrupted(code):
            running.trial.state = "waiting"
            self.ledger.save()
        else:
            was_killed = code == -signal.SIGKILL
            error_code = ResourceError.exit_code if was_killed else 1
            self._fail(running.trial, running.death(code), error_code)

    def _fail(self, trial: Trial, error: str, code: int) -> None:
        trial.state, trial.error, trial.error_code = "failed", error, code
        self._changed(trial)

    def _changed(self, trial: Trial) -> None:
        self.ledger.save()
        said = f"{trial.state} after {count_of(trial.updates, 'update')}"
        if trial.value is not None:
            said += f", {_value(trial)}"
        self.say(f"{name_of(trial)}: {said}{trial.error and f': {trial.error}'}")
        self.on_change(trial)

    def _stop_all(self, signals: StopSignals) -> None:
        """Stop what still runs, after an error or a signal; a second one kills it."""
        if left := sum(not each.has_ended for each in self._running):
            self.say(f"saving {count_of(left, 'trial')}")
        for each in self._running:
            each.stop()
        while self._running:
            if signals.received is not None:
                for each in self._running:
                    each.process.kill()
            try:
                self._read(POLL_SECONDS)
            except HeadwiseError:
                continue  # the first error is the one to report

    def _stop_and_wait(self) -> None:
        """Stop what runs; in the thread of a watchdog, while this one is busy."""
        for each in self._running:
            each.stop()
        for each in self._running:
            each.process.wait()

    def _read_curve(self, trial: Trial) -> Curve:
        curve = Curve(trial.combination)
        log = self.ledger.folder / trial.folder / LOG
        if not log.is_file():
            return curve
        measure = self.ledger.plan.recipe["training"]["measure"]
        for each in read_validations(log).validations:
            if each.name != LIVE:
                continue
            if measure == "loss":
                curve.add(each.step, each.loss)
            elif measure in each.scores:
                curve.add(each.step, each.scores[measure].value)
        return curve


def name_of(trial: Trial) -> str:
    """Return a trial as text for messages."""
    return f"trial {trial.trial} ({described(trial.settings)}, seed {trial.seed})"


def _value(trial: Trial) -> str:
    if trial.value is None:
        return "no value"
    return f"best {trial.value:.4g} (update {trial.best_step:,})"
