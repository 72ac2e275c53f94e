"""A log that programs read: one JSON object a line, each with what it is.

update      step, loss, learning_rate, gradient_norm, tokens, seconds
validation  step, name, loss, perplexity, scores with signatures, samples, best
start, end  step, seconds, reason
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwise.storage import resource_error, write_text
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.validation import Validation
from headwise.training.watch import Update


class JsonLog:
    """Appends to ``path``; what an interrupted run logged beyond its state is cut."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def starts(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Cut off what is going to be done again, and note the start."""
        if self.path.exists():
            kept = [
                line + "\n"
                for line in self._text().split("\n")
                if _is_settled(line, state)
            ]
            write_text(self.path, "".join(kept))
        self._write("start", step=state.step, seconds=state.seconds)

    def updated(self, update: Update, state: TrainingState) -> None:
        """Note an update."""
        self._write("update", **asdict(update))

    def validated(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Note a validation."""
        self._write(
            "validation",
            step=state.step,
            name=name,
            loss=validation.loss,
            perplexity=validation.perplexity,
            scores={key: asdict(each) for key, each in validation.scores.items()},
            samples=[asdict(sample) for sample in validation.samples],
            best=best,
            seconds=state.seconds,
        )

    def says(self, text: str) -> None:
        """Note what a person should read."""
        self._write("note", text=text)

    def ends(self, state: TrainingState, reason: str) -> None:
        """Note the end."""
        self._write("end", step=state.step, seconds=state.seconds, reason=reason)

    def _text(self) -> str:
        """Return what is there; a killed run may have cut a character in two."""
        try:
            return self.path.read_bytes().decode("utf-8", "replace")
        except OSError as error:
            raise resource_error(error, self.path) from error

    def _write(self, what: str, **facts: Any) -> None:
        line = json.dumps({"what": what, **facts}, ensure_ascii=False)
        try:
            with self.path.open("a", encoding="utf-8", newline="") as file:
                file.write(line + "\n")
        except OSError as error:
            raise resource_error(error, self.path) from error


def _is_settled(line: str, state: TrainingState) -> bool:
    """Tell whether a logged line is about what ``state`` already holds."""
    try:
        entry = json.loads(line)
    except ValueError:  # the last line of a run that was killed while it wrote
        return False
    step = entry.get("step", 0) if isinstance(entry, dict) else None
    if not isinstance(step, int):
        return False
    if entry.get("what") == "validation":
        single = entry.get("name") == "now"
        return step <= (state.validated_step if single else state.averaged_step)
    return step <= state.step
