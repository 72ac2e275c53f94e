"""``log.jsonl``: one JSON object per line, whose ``what`` says which event it is.

update      step, loss, learning_rate, gradient_norm, tokens, seconds; kl_divergence,
            with R-Drop, SimCut or teachers, which is not in the loss
validation  step, name, loss, perplexity, scores with signatures, samples, best; one
            sample has the cross-attention of its source and reference
note        text
start       step, seconds, steps (the maximum); label_smoothing, which is in the loss of
            updates, and not in that of validations
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
from headwise.training.state import LIVE, TrainingState
from headwise.training.validation import Validation
from headwise.wording import without_surrogates

Entry = dict[str, Any]


class JsonLog:
    """Appends events to ``path``; on resuming, events beyond the checkpoint go."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_start(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Remove the events that will be repeated, and log the start."""
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
        """Log an update."""
        self._write(update_entry(update))

    def on_validation(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Log a validation."""
        self._write(validation_entry(validation, state, name, best))

    def on_message(self, text: str) -> None:
        """Log a message."""
        self._write(note_entry(text))

    def on_end(self, state: TrainingState, reason: str) -> None:
        """Log the end."""
        self._write(end_entry(state, reason))

    def sync(self) -> None:
        """Sync the file and its folder to disk."""
        try:
            storage.sync(self.path)
            storage.sync(self.path.parent)
        except OSError as error:
            raise resource_error(error, self.path) from error

    def _text(self) -> str:
        """Return the text; an interruption may have cut a character in two."""
        try:
            return self.path.read_bytes().decode("utf-8", "replace")
        except OSError as error:
            raise resource_error(error, self.path) from error

    def _write(self, entry: Entry) -> None:
        line = json.dumps(entry, ensure_ascii=False)
        if line != without_surrogates(line):
            # A file name in another encoding needs JSON escapes.
            line = json.dumps(entry)
        try:
            with self.path.open("a", encoding="utf-8", newline="") as file:
                file.write(line + "\n")
        except OSError as error:
            raise resource_error(error, self.path) from error


def start_entry(state: TrainingState, settings: TrainingSettings) -> Entry:
    """Return the entry of a start from ``state``."""
    return {
        "what": "start",
        "step": state.step,
        "seconds": state.seconds,
        "label_smoothing": settings.label_smoothing,
        "steps": settings.steps,
    }


def update_entry(update: StepMetrics) -> Entry:
    """Return the entry of an update."""
    return {"what": "update", **_without_none(asdict(update))}


def validation_entry(
    validation: Validation, state: TrainingState, name: str, best: bool
) -> Entry:
    """Return the entry of a validation of the weights called ``name``."""
    perplexity = {"perplexity": validation.perplexity}
    return {
        "what": "validation",
        "step": state.step,
        "name": name,
        "loss": validation.loss,
        **_without_none(perplexity),
        "scores": {key: asdict(each) for key, each in validation.scores.items()},
        "samples": [_without_none(asdict(sample)) for sample in validation.samples],
        "best": best,
        "seconds": state.seconds,
    }


def note_entry(text: str) -> Entry:
    """Return the entry of a message."""
    return {"what": "note", "text": text}


def end_entry(state: TrainingState, reason: str) -> Entry:
    """Return the entry of an end, with its reason."""
    return {
        "what": "end",
        "step": state.step,
        "seconds": state.seconds,
        "reason": reason,
    }


def read_entry(line: str) -> Entry | None:
    """Parse a line of a log; None for half a line, as a killed run leaves it.

    A power cut may leave anything in its place: zeros, or what the disk held before.
    """
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def is_in_checkpoint(entry: Entry, state: TrainingState) -> bool:
    """Return whether the checkpoint ``state`` includes the event of ``entry``."""
    step = entry.get("step", 0)
    if not isinstance(step, int):
        return False
    if entry.get("what") == "validation":
        single = entry.get("name") == LIVE
        return step <= (state.validated_step if single else state.averaged_step)
    return step <= state.step


def _without_none(table: Entry) -> Entry:
    return {name: value for name, value in table.items() if value is not None}
