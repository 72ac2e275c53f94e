"""A log that programs read: one JSON object a line, each with what it is.

update      step, loss, learning_rate, gradient_norm, tokens, seconds
validation  step, name, loss, perplexity, scores with signatures, samples, best; one
            sample has the attention of its source and reference
note        text
start       step, seconds; label_smoothing, which losses of updates are with, and those
            of validations without
end         step, seconds, reason
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwise import storage
from headwise.storage import resource_error, write_text
from headwise.training.callbacks import StepMetrics
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.validation import Validation

Entry = dict[str, Any]


class JsonLog:
    """Appends to ``path``; what an interrupted run logged beyond its state is cut."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_start(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Cut off what is going to be done again, and note the start."""
        if self.path.exists():
            text = self._text()
            kept = [
                line + "\n"
                for line in text.split("\n")
                if (entry := read_entry(line)) and is_in_checkpoint(entry, state)
            ]
            if text != "".join(kept):
                write_text(self.path, "".join(kept))
        self._write(start_entry(state, settings))

    def on_step(self, update: StepMetrics, state: TrainingState) -> None:
        """Note an update."""
        self._write(update_entry(update))

    def on_validation(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Note a validation."""
        self._write(validation_entry(validation, state, name, best))

    def on_message(self, text: str) -> None:
        """Note what a person should read."""
        self._write(note_entry(text))

    def on_end(self, state: TrainingState, reason: str) -> None:
        """Note the end."""
        self._write(end_entry(state, reason))

    def sync(self) -> None:
        """Have the disk hold all that was noted, whatever happens to the power."""
        try:
            storage.sync(self.path)
            storage.sync(self.path.parent)
        except OSError as error:
            raise resource_error(error, self.path) from error

    def _text(self) -> str:
        """Return what is there; an interruption may have cut a character in two."""
        try:
            return self.path.read_bytes().decode("utf-8", "replace")
        except OSError as error:
            raise resource_error(error, self.path) from error

    def _write(self, entry: Entry) -> None:
        line = json.dumps(entry, ensure_ascii=False)
        try:
            with self.path.open("a", encoding="utf-8", newline="") as file:
                file.write(line + "\n")
        except OSError as error:
            raise resource_error(error, self.path) from error


def start_entry(state: TrainingState, settings: TrainingSettings) -> Entry:
    """Say where training goes on from and to at most, and what its losses are."""
    return {
        "what": "start",
        "step": state.step,
        "seconds": state.seconds,
        "label_smoothing": settings.label_smoothing,
        "steps": settings.steps,
    }


def update_entry(update: StepMetrics) -> Entry:
    """Say what an update was."""
    return {"what": "update", **asdict(update)}


def validation_entry(
    validation: Validation, state: TrainingState, name: str, best: bool
) -> Entry:
    """Say what a look at the weights called ``name`` found."""
    return {
        "what": "validation",
        "step": state.step,
        "name": name,
        "loss": validation.loss,
        "perplexity": validation.perplexity,
        "scores": {key: asdict(each) for key, each in validation.scores.items()},
        "samples": [_without_none(asdict(sample)) for sample in validation.samples],
        "best": best,
        "seconds": state.seconds,
    }


def note_entry(text: str) -> Entry:
    """Say what a person should read."""
    return {"what": "note", "text": text}


def end_entry(state: TrainingState, reason: str) -> Entry:
    """Say where and why training ended."""
    return {
        "what": "end",
        "step": state.step,
        "seconds": state.seconds,
        "reason": reason,
    }


def read_entry(line: str) -> Entry | None:
    """Read a line of a log; None for half a one, as a killed run leaves it.

    A power cut may leave anything in its place: zeros, or what the disk held before.
    """
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def is_in_checkpoint(entry: Entry, state: TrainingState) -> bool:
    """Tell whether an entry is about what ``state`` already holds."""
    step = entry.get("step", 0)
    if not isinstance(step, int):
        return False
    if entry.get("what") == "validation":
        single = entry.get("name") == "now"
        return step <= (state.validated_step if single else state.averaged_step)
    return step <= state.step


def _without_none(table: Entry) -> Entry:
    return {name: value for name, value in table.items() if value is not None}
