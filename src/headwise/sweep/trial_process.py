"""One trial in a process of its own: trains in a run folder, and reports to the sweep.

The sweep writes one JSON line to the standard input of the process, the ``Order``, and
reads JSON lines from its standard output:

validation   step, last_step, value, tokens, minutes; it then waits for an answer, a
             line with ``go`` or ``stop``
finished     the training state, and why training ended
stopped      the same: training was stopped early, by the answer
interrupted  the same: a stop signal came, and all is saved
failed       error, code; ends_sweep if other trials would fail too, as by a full disk
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from headwise.data.prepared import PreparedCorpus
from headwise.errors import (
    HeadwiseError,
    ResourceError,
    Stopped,
    UsageError,
    is_out_of_memory,
)
from headwise.metrics.registry import CAN_RESAMPLE
from headwise.recipe import Recipe
from headwise.reports.run_page import RunPage
from headwise.run_folder.model_folder import open_model_folder
from headwise.run_folder.paths import BEST
from headwise.run_folder.run import open_task, train_run
from headwise.settings import read
from headwise.storage import write_text
from headwise.sweep.ledger import OUTPUTS
from headwise.training.allocator import keep_freed_memory
from headwise.training.callbacks import StepMetrics
from headwise.training.settings import TrainingSettings
from headwise.training.signals import StopSignals
from headwise.training.state import LIVE, TrainingState
from headwise.training.tensorboard import TensorBoardEvents
from headwise.training.time_left import TimeLeft
from headwise.training.validation import Validation, scored_text

GO, STOP = "go", "stop"


@dataclass(frozen=True, kw_only=True)
class Order:
    """What the process is to do."""

    folder: str
    recipe: dict[str, Any]
    corpus: str
    """Folder of the prepared corpus."""

    device: str
    threads: int


class ReportToSweep:
    """Callback that reports validations, and stops training if it is told to."""

    def __init__(
        self, measure: str, signals: StopSignals, answers: IO[str], reports: IO[str]
    ) -> None:
        self.state = TrainingState()
        self.reason = ""
        self.was_stopped = False
        self._measure = measure
        self._signals = signals
        self._answers = answers
        self._reports = reports
        self._last_step = 0
        self._stops = False

    def on_start(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Note the last update."""
        self._last_step = settings.num_steps

    def on_step(self, update: StepMetrics, state: TrainingState) -> None:
        """Stop training, if the answer to the validation before this update was so.

        Not in the validation: what follows it is then in the state that is saved, and
        a last validation, after which training ends anyway, stops nothing.
        """
        if self._stops:
            self.was_stopped = True
            self._signals.received = signal.SIGTERM

    def on_validation(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Report a validation of the live weights, and wait for the answer."""
        if name != LIVE:
            return
        send(
            self._reports,
            "validation",
            step=state.step,
            last_step=self._last_step,
            value=validation.value(self._measure),
            tokens=state.tokens,
            minutes=state.seconds / 60,
            best_value=state.best_value,
            best_step=state.best_step,
        )
        # An empty line: the sweep has closed the pipe, as it is being stopped itself.
        self._stops = self._answers.readline().strip() == STOP

    def on_message(self, text: str) -> None:
        """Ignore messages, which ``log.jsonl`` has."""

    def on_end(self, state: TrainingState, reason: str) -> None:
        """Note the last state, and why training ended."""
        self.state, self.reason = state, reason


def send(reports: IO[str], what: str, **facts: Any) -> None:
    """Send a message to the sweep."""
    reports.write(json.dumps({"what": what, **facts}) + "\n")
    reports.flush()


def run_trial(order: Order, answers: IO[str], reports: IO[str]) -> None:
    """Train as ``order`` says, and report how it ended."""
    torch.set_num_threads(order.threads)
    keep_freed_memory()
    folder = Path(order.folder)
    recipe = read(Recipe, order.recipe)
    corpus = PreparedCorpus.open(Path(order.corpus))
    signals = StopSignals(force_exit=True)
    report = ReportToSweep(recipe.training.measure, signals, answers, reports)
    try:
        train_run(
            folder,
            recipe,
            corpus,
            callbacks=[
                report,
                TensorBoardEvents(folder / "tensorboard", say=report.on_message),
                RunPage(
                    folder, say=report.on_message, time_left=TimeLeft(corpus.facts)
                ),
            ],
            device=order.device,
            signals=signals,
        )
        what = "finished"
    except Stopped:
        what = "stopped" if report.was_stopped else "interrupted"
    if what == "finished" and recipe.training.measure in CAN_RESAMPLE:
        write_outputs(folder, corpus, recipe, order.device)
    state = report.state
    send(
        reports,
        what,
        reason=report.reason,
        step=state.step,
        tokens=state.tokens,
        minutes=state.seconds / 60,
        best_value=state.best_value,
        best_step=state.best_step,
    )


def write_outputs(
    folder: Path, corpus: PreparedCorpus, recipe: Recipe, device: str
) -> None:
    """Write the outputs of the best model for the text that validations score."""
    if not (folder / BEST).is_dir():
        return
    opened = open_model_folder(folder / BEST, device=device)
    sources, references = scored_text(corpus, recipe.training.validation_pairs)
    outputs = open_task(recipe, corpus).predict(opened.model, sources)
    write_text(folder / OUTPUTS, as_json_lines(sources, references, outputs))


def as_json_lines(
    sources: Sequence[str], references: Sequence[str], outputs: Sequence[str]
) -> str:
    """Return one JSON object a line, with ``source``, ``reference`` and ``output``."""
    return "".join(
        json.dumps(
            {"source": source, "reference": reference, "output": output},
            ensure_ascii=False,
        )
        + "\n"
        for source, reference, output in zip(sources, references, outputs, strict=True)
    )


def main() -> None:
    """Run the process."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the sweep stops it so
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keep other output out of the reports
    order = Order(**json.loads(sys.stdin.readline()))
    try:
        run_trial(order, sys.stdin, reports)
    except BrokenPipeError:
        os._exit(1)  # the sweep has died
    except Exception as error:
        if not isinstance(error, HeadwiseError):
            traceback.print_exception(error)
        send(reports, "failed", **failure(error))


def failure(error: Exception) -> dict[str, Any]:
    """Return what to report of an error that ended training."""
    if is_out_of_memory(error):
        return {"error": "out of memory", "code": ResourceError.exit_code}
    if not isinstance(error, HeadwiseError):
        return {"error": f"{type(error).__name__}: {error}", "code": 1}
    of_disk = isinstance(error, ResourceError) and isinstance(error.__cause__, OSError)
    return {
        "error": str(error),
        "code": error.exit_code,
        "ends_sweep": of_disk or isinstance(error, UsageError),
    }


if __name__ == "__main__":
    main()
