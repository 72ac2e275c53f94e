"""Training callback that keeps report.html up to date."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError, Stopped
from headwise.reports.history import History, read_history
from headwise.reports.listing import recipe_table
from headwise.reports.run_report import RunInfo, run_report
from headwise.run_folder.paths import LOG, RECIPE
from headwise.storage import write_text
from headwise.training.callbacks import StepMetrics
from headwise.training.log import (
    end_entry,
    is_in_checkpoint,
    note_entry,
    start_entry,
    update_entry,
    validation_entry,
)
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.time_left import TimeLeft
from headwise.training.validation import Validation
from headwise.wording import without_surrogates

REPORT = "report.html"

SECONDS_BETWEEN = 30.0
"""How often the page is written between validations."""


class RunPage:
    """Callback that writes ``report.html`` into a run folder, from its log.

    A page that cannot be written does not end training, but gives one message.
    """

    def __init__(
        self,
        folder: Path,
        *,
        say: Callable[[str], None],
        time_left: TimeLeft | None = None,
    ) -> None:
        self.folder = folder
        self.say = say
        self.history = History()
        self._settings = TrainingSettings()
        self._epoch_batches = 1
        self._time_left = time_left or TimeLeft()
        self._state = TrainingState()
        self._recipe = ""
        self._task = "translation"
        self._inspections: Mapping[str, str] = {}
        self._written = 0.0
        self._failed = False

    def on_start(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Read the log up to the checkpoint that training resumes from."""
        self._settings, self._state = settings, state
        self._epoch_batches = epoch_batches
        self._time_left.on_start(state, settings, epoch_batches)
        try:
            self.history = read_history(
                self.folder / LOG, keep=lambda entry: is_in_checkpoint(entry, state)
            )
            self._recipe = (self.folder / RECIPE).read_text(encoding="utf-8")
            self._task = recipe_table(self.folder).get("task", self._task)
        except (HeadwiseError, OSError, UnicodeDecodeError) as error:
            self._fail(error)
        self._add(start_entry(state, settings))
        self._write()

    def on_step(self, update: StepMetrics, state: TrainingState) -> None:
        """Add an update; write the page if the last one is old enough."""
        self._state = state
        self._time_left.on_step(update, state)
        self._add(update_entry(update))
        if time.monotonic() - self._written >= SECONDS_BETWEEN:
            self._write()

    def on_validation(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Add a validation and write the page."""
        self._state = state
        self._time_left.on_validation()
        self._add(validation_entry(validation, state, name, best))
        self._write()

    def on_message(self, text: str) -> None:
        """Add a message."""
        self._add(note_entry(text))

    def on_end(self, state: TrainingState, reason: str) -> None:
        """Write the page for the last time."""
        self._state = state
        self._add(end_entry(state, reason))
        self._write()

    @property
    def best_sources(self) -> list[str]:
        """The sources of the samples that the best model was validated on."""
        best = self.history.best
        return [] if best is None else [each.source for each in best.samples]

    def link_samples(self, inspections: Mapping[str, str]) -> None:
        """Write the page again, with links from sources to pages about them."""
        self._inspections = inspections
        self._write()

    def _add(self, entry: Mapping[str, Any]) -> None:
        self.history.add(entry)

    def _write(self) -> None:
        about = RunInfo(
            name=self.folder.resolve().name,
            task=self._task,
            steps=self._settings.num_steps,
            epoch=self._state.epochs(self._epoch_batches),
            epochs=self._settings.epochs,
            left=self._time_left.seconds(self._state),
            recipe=self._recipe,
            inspections=self._inspections,
        )
        self._written = time.monotonic()
        try:
            page = run_report(self.history, about)
            write_text(self.folder / REPORT, without_surrogates(page))
        except Stopped:
            raise
        except Exception as error:  # a report must never end a run
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            self.say(f"{REPORT} could not be updated: {error}")
