"""What happened in a run, as its log tells it, in bounded room.

Nothing here needs torch: a list of runs is to be there at once.
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

MOST_STRETCHES = 512
"""Stretches of updates that are kept apart; then each two neighbours become one."""

UPDATE = '{"what": "update"'
"""What a line of the log about an update begins with."""

NOW = "now"
"""Name of a look at the weights themselves, not at a mean of checkpoints."""

RUNNING = ""
"""What ``ended`` is as long as a run has not said that it ended."""


@dataclass(slots=True)
class Stretch:
    """Neighbouring updates taken together."""

    first: int
    last: int
    count: int
    loss: float
    """Sum over the updates, as all that are not the lowest or highest."""
    lowest: float
    highest: float
    learning_rate: float
    norm: float
    highest_norm: float
    tokens: int
    seconds: float

    @classmethod
    def of(cls, entry: Entry) -> Stretch:
        """Begin a stretch with one update."""
        loss, norm = float(entry["loss"]), float(entry["gradient_norm"])
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise ValueError("an update that was not made")
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

    def with_next(self, after: Stretch) -> Stretch:
        """Return both as one."""
        return Stretch(
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
        """The step it is drawn at."""
        return (self.first + self.last) / 2


@dataclass(frozen=True, slots=True)
class Found:
    """One measure at one look."""

    name: str
    value: float
    interval: float | None
    signature: str
    higher_is_better: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """Attention: how much each piece of the target takes from each of the source."""

    source: list[str]
    target: list[str]
    weights: list[list[float]]


@dataclass(frozen=True, slots=True)
class Shown:
    """A held-out pair and what the model made of it."""

    source: str
    reference: str
    output: str
    attention: Picture | None


@dataclass(frozen=True, slots=True)
class Look:
    """One validation."""

    step: int
    name: str
    loss: float
    scores: dict[str, Found]
    samples: list[Shown]
    best: bool
    seconds: float

    @classmethod
    def of(cls, entry: Entry) -> Look:
        """Read what the log says of a validation."""
        return cls(
            step=int(entry["step"]),
            name=str(entry["name"]),
            loss=float(entry["loss"]),
            scores={key: _found(each) for key, each in entry["scores"].items()},
            samples=[_shown(each) for each in entry["samples"]],
            best=bool(entry["best"]),
            seconds=float(entry.get("seconds", 0.0)),
        )


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a reader of the curves should know of."""

    step: int
    kind: str
    """start, resume, note or end."""
    text: str


@dataclass
class History:
    """A run so far; ``add`` tells it what comes next."""

    stretches: list[Stretch] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    ended: str = RUNNING
    """Why the run ended; empty while it has not said so."""
    planned: int | None = None
    """Updates at most, epochs counted; None where an older log does not say."""
    updates_a_stretch: int = 1
    label_smoothing: float | None = None
    """That of the loss in training; None where an older log does not say."""

    def add(self, entry: Entry) -> None:
        """Take in an entry of the log; one that is not as we write them is left out."""
        take = TAKES.get(str(entry.get("what")))
        if take is None:
            return
        try:
            take(self, entry)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return

    @property
    def best(self) -> Look | None:
        """The look whose model was kept."""
        return next((look for look in reversed(self.looks) if look.best), None)

    @property
    def resumes(self) -> list[int]:
        """Steps that training went on from."""
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
        text = f"went on from step {step:,}" if step else "training began"
        self.events.append(Event(step, kind, text))

    def _update(self, entry: Entry) -> None:
        self._count(entry)
        new = Stretch.of(entry)
        last = self.stretches[-1] if self.stretches else None
        if last is not None and last.count < self.updates_a_stretch:
            self.stretches[-1] = last.with_next(new)
            return
        if len(self.stretches) == MOST_STRETCHES:
            self.stretches = [
                one.with_next(other)
                for one, other in zip(
                    self.stretches[::2], self.stretches[1::2], strict=True
                )
            ]
            self.updates_a_stretch *= 2
        self.stretches.append(new)

    def _count(self, entry: Entry) -> None:
        self.step = int(entry["step"])
        self.tokens += int(entry["tokens"])
        self.seconds += float(entry["seconds"])

    def _look(self, entry: Entry) -> None:
        look = Look.of(entry)
        self.looks.append(look)
        self.step = look.step
        self.seconds = max(self.seconds, look.seconds)

    def _note(self, entry: Entry) -> None:
        self.events.append(Event(self.step, "note", str(entry["text"])))

    def _end(self, entry: Entry) -> None:
        self.ended = str(entry["reason"])
        self.seconds = float(entry["seconds"])
        self.events.append(Event(int(entry["step"]), "end", self.ended))


TAKES: dict[str, Callable[[History, Entry], None]] = {
    "start": History._start,
    "update": History._update,
    "validation": History._look,
    "note": History._note,
    "end": History._end,
}


def read_history(
    log: Path, *, keeps: Callable[[dict[str, Any]], bool] = lambda _: True
) -> History:
    """Read a log, of which only what ``keeps`` says; none is an empty history."""
    history = History()
    for entry in entries(log):
        if keeps(entry):
            history.add(entry)
    return history


def read_looks(log: Path) -> History:
    """Read a log without its updates but the last: fast, for lists of runs."""
    history = History()
    last: str | None = None
    for line in _lines(log):
        if line.startswith(UPDATE):
            last = line
            continue
        if last is not None:  # so that what follows knows its step
            _count(history, last)
            last = None
        entry = _entry(line)
        if entry is not None:
            history.add(entry)
    if last is not None:
        _count(history, last)
    return history


def entries(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a log; half a line, as a kill leaves one, is left out."""
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
            f"{log} cannot be read: {error.strerror or error}; see to its permissions"
        ) from error


def _found(table: Entry) -> Found:
    interval = table.get("interval")
    return Found(
        name=str(table["name"]),
        value=float(table["value"]),
        interval=None if interval is None else float(interval),
        signature=str(table["signature"]),
        higher_is_better=bool(table["higher_is_better"]),
    )


def _shown(table: Entry) -> Shown:
    attention = table.get("attention")
    return Shown(
        source=str(table["source"]),
        reference=str(table["reference"]),
        output=str(table["output"]),
        attention=None if attention is None else _picture(attention),
    )


def _picture(table: Entry) -> Picture:
    picture = Picture(
        source=[str(piece) for piece in table["source"]],
        target=[str(piece) for piece in table["target"]],
        weights=[[float(weight) for weight in row] for row in table["weights"]],
    )
    if len(picture.weights) != len(picture.target) or any(
        len(row) != len(picture.source) for row in picture.weights
    ):
        raise ValueError("rows and columns must be those of the pieces")
    return picture
