"""The history of a run, read from its log (log.jsonl), in bounded memory.

Nothing here needs torch, so that listing runs is fast.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwise.errors import ModelError

Entry = Mapping[str, Any]

MAX_BUCKETS = 512
"""Most buckets of updates; beyond that, neighbouring buckets are merged in pairs."""

UPDATE = '{"what": "update"'
"""Beginning of a log line of an update."""

RUNNING = ""
"""Value of ``ended`` while the log has no end entry."""


@dataclass(slots=True)
class UpdateBucket:
    """Consecutive updates, aggregated."""

    first: int
    last: int
    count: int
    loss: float
    """Sum over the updates, as all fields but the lowest and highest."""
    lowest: float
    highest: float
    learning_rate: float
    norm: float
    highest_norm: float
    tokens: int
    seconds: float

    @classmethod
    def of(cls, entry: Entry) -> UpdateBucket:
        """Return a bucket of one update."""
        loss, norm = float(entry["loss"]), float(entry["gradient_norm"])
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise ValueError("a skipped update")
        step = int(entry["step"])
        return cls(
            first=step,
            last=step,
            count=1,
            loss=loss,
            lowest=loss,
            highest=loss,
            learning_rate=float(entry["learning_rate"]),
            norm=norm,
            highest_norm=norm,
            tokens=int(entry["tokens"]),
            seconds=float(entry["seconds"]),
        )

    def merged_with(self, after: UpdateBucket) -> UpdateBucket:
        """Return the union of both."""
        return UpdateBucket(
            first=self.first,
            last=after.last,
            count=self.count + after.count,
            loss=self.loss + after.loss,
            lowest=min(self.lowest, after.lowest),
            highest=max(self.highest, after.highest),
            learning_rate=self.learning_rate + after.learning_rate,
            norm=self.norm + after.norm,
            highest_norm=max(self.highest_norm, after.highest_norm),
            tokens=self.tokens + after.tokens,
            seconds=self.seconds + after.seconds,
        )

    @property
    def middle(self) -> float:
        """The step at which it is plotted."""
        return (self.first + self.last) / 2


@dataclass(frozen=True, slots=True)
class ScoreRecord:
    """One metric of one validation."""

    name: str
    value: float
    interval: float | None
    signature: str
    higher_is_better: bool


@dataclass(frozen=True, slots=True)
class AttentionMap:
    """Cross-attention weights: a row per target piece, a column per source piece."""

    source: list[str]
    target: list[str]
    weights: list[list[float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """A validation pair with the translation of the model."""

    source: str
    reference: str
    output: str
    attention: AttentionMap | None


@dataclass(frozen=True, slots=True)
class ValidationRecord:
    """One validation."""

    step: int
    name: str
    loss: float
    scores: dict[str, ScoreRecord]
    samples: list[Sample]
    best: bool
    seconds: float

    @classmethod
    def of(cls, entry: Entry) -> ValidationRecord:
        """Read a validation entry of the log."""
        return cls(
            step=int(entry["step"]),
            name=str(entry["name"]),
            loss=float(entry["loss"]),
            scores={key: _score_record(each) for key, each in entry["scores"].items()},
            samples=[_sample(each) for each in entry["samples"]],
            best=bool(entry["best"]),
            seconds=float(entry.get("seconds", 0.0)),
        )


@dataclass(frozen=True, slots=True)
class Event:
    """A message about the run at a step."""

    step: int
    kind: str
    """start, resume, note or end."""
    text: str


@dataclass
class History:
    """A run so far; ``add`` appends an entry of the log."""

    buckets: list[UpdateBucket] = field(default_factory=list)
    validations: list[ValidationRecord] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    ended: str = RUNNING
    """Why the run ended; empty while it runs."""
    planned: int | None = None
    """Number of updates planned; None if an older log does not tell."""
    updates_per_bucket: int = 1
    label_smoothing: float | None = None
    """Label smoothing of the training loss; None if an older log does not tell."""

    def add(self, entry: Entry) -> None:
        """Add an entry of the log; a malformed one is ignored."""
        handler = HANDLERS.get(str(entry.get("what")))
        if handler is None:
            return
        try:
            handler(self, entry)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return

    @property
    def best(self) -> ValidationRecord | None:
        """The validation of the best model."""
        return next(
            (
                validation
                for validation in reversed(self.validations)
                if validation.best
            ),
            None,
        )

    @property
    def resumes(self) -> list[int]:
        """Steps from which training was resumed."""
        return [event.step for event in self.events if event.kind == "resume"]

    def _start(self, entry: Entry) -> None:
        step = int(entry["step"])
        self.step, self.ended = step, RUNNING
        self.seconds = float(entry["seconds"])
        planned = entry.get("steps")
        self.planned = planned if isinstance(planned, int) else None
        smoothing = entry.get("label_smoothing")
        self.label_smoothing = None if smoothing is None else float(smoothing)
        kind = "resume" if step else "start"
        text = f"resumed from step {step:,}" if step else "training started"
        self.events.append(Event(step, kind, text))

    def _update(self, entry: Entry) -> None:
        self._count(entry)
        new = UpdateBucket.of(entry)
        last = self.buckets[-1] if self.buckets else None
        if last is not None and last.count < self.updates_per_bucket:
            self.buckets[-1] = last.merged_with(new)
            return
        if len(self.buckets) == MAX_BUCKETS:
            self.buckets = [
                one.merged_with(other)
                for one, other in zip(
                    self.buckets[::2], self.buckets[1::2], strict=True
                )
            ]
            self.updates_per_bucket *= 2
        self.buckets.append(new)

    def _count(self, entry: Entry) -> None:
        self.step = int(entry["step"])
        self.tokens += int(entry["tokens"])
        self.seconds += float(entry["seconds"])

    def _validation(self, entry: Entry) -> None:
        validation = ValidationRecord.of(entry)
        self.validations.append(validation)
        self.step = validation.step
        self.seconds = max(self.seconds, validation.seconds)

    def _note(self, entry: Entry) -> None:
        self.events.append(Event(self.step, "note", str(entry["text"])))

    def _end(self, entry: Entry) -> None:
        self.ended = str(entry["reason"])
        self.seconds = float(entry["seconds"])
        self.events.append(Event(int(entry["step"]), "end", self.ended))


HANDLERS: dict[str, Callable[[History, Entry], None]] = {
    "start": History._start,
    "update": History._update,
    "validation": History._validation,
    "note": History._note,
    "end": History._end,
}


def read_history(
    log: Path, *, keep: Callable[[dict[str, Any]], bool] = lambda _: True
) -> History:
    """Read the log entries for which ``keep`` is true; empty without a log."""
    history = History()
    for entry in entries(log):
        if keep(entry):
            history.add(entry)
    return history


def read_validations(log: Path) -> History:
    """Read a log without its updates (but the last): fast, for lists of runs."""
    history = History()
    last: str | None = None
    for line in _lines(log):
        if line.startswith(UPDATE):
            last = line
            continue
        if last is not None:  # so that the next entry knows its step
            _count(history, last)
            last = None
        entry = _entry(line)
        if entry is not None:
            history.add(entry)
    if last is not None:
        _count(history, last)
    return history


def entries(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a log; a truncated line, as after a kill, is skipped."""
    for line in _lines(log):
        entry = _entry(line)
        if entry is not None:
            yield entry


def _count(history: History, line: str) -> None:
    entry = _entry(line)
    if entry is not None and isinstance(entry.get("step"), int):
        history.step = entry["step"]


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _lines(log: Path) -> Iterator[str]:
    try:
        with log.open(encoding="utf-8", errors="replace", newline="\n") as file:
            yield from file
    except FileNotFoundError:
        return
    except OSError as error:
        raise ModelError(
            f"{log} cannot be read: {error.strerror or error}; check its permissions"
        ) from error


def _score_record(table: Entry) -> ScoreRecord:
    interval = table.get("interval")
    return ScoreRecord(
        name=str(table["name"]),
        value=float(table["value"]),
        interval=None if interval is None else float(interval),
        signature=str(table["signature"]),
        higher_is_better=bool(table["higher_is_better"]),
    )


def _sample(table: Entry) -> Sample:
    attention = table.get("attention")
    return Sample(
        source=str(table["source"]),
        reference=str(table["reference"]),
        output=str(table["output"]),
        attention=None if attention is None else _attention_map(attention),
    )


def _attention_map(table: Entry) -> AttentionMap:
    picture = AttentionMap(
        source=[str(piece) for piece in table["source"]],
        target=[str(piece) for piece in table["target"]],
        weights=[[float(weight) for weight in row] for row in table["weights"]],
    )
    if len(picture.weights) != len(picture.target) or any(
        len(row) != len(picture.source) for row in picture.weights
    ):
        raise ValueError("the weights do not fit the pieces")
    return picture
