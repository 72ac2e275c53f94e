"""What is varied: lists of values (``path=a,b,c``) and ranges (``path=low..high``)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from headwise.errors import UsageError
from headwise.settings import with_overrides

Settings = dict[str, Any]
"""Path of each varied setting -> its value: one combination."""

RANGE = ".."
LOG = "log:"

NOT_VARIED = {
    "seed": "use --seeds, which trains every combination with the same seeds",
    "task": "values of different tasks cannot be compared; make a sweep of each",
    "training.measure": "values of different measures cannot be compared; choose one "
    "by --set",
    "training.max_minutes": "every trial has the same limit; use --max-time",
    "training.steps": "every trial has the same limit; choose one by --set",
    "training.epochs": "every trial has the same limit; choose one by --set",
    "data.dev": "values on different text cannot be compared; choose one by --set",
    "data.dev_pairs": "values on different text cannot be compared; choose one by "
    "--set",
}
"""Settings that all trials share -> what to do instead."""


@dataclass(frozen=True, slots=True)
class Choices:
    """A setting with a list of values."""

    path: str
    values: tuple[Any, ...]

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to check before anything starts: all of them."""
        return self.values

    def as_table(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {"path": self.path, "values": list(self.values)}


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two ends, both included."""

    path: str
    low: float
    high: float
    log: bool
    """Whether its logarithm is searched evenly."""

    @property
    def is_whole(self) -> bool:
        """Whether values are whole numbers: both ends are."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to check before anything starts."""
        return self.low, self.high

    def as_table(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {"path": self.path, "low": self.low, "high": self.high, "log": self.log}


Varied = Choices | Range


def parse_varied(texts: Sequence[str], assignments: Sequence[str]) -> list[Varied]:
    """Parse the values of ``--vary``; ``assignments`` are those of ``--set``.

    Raises ``UsageError`` with all problems.
    """
    found: list[Varied] = []
    problems: list[str] = []
    for text in texts:
        try:
            found.append(_parse(text))
        except UsageError as error:
            problems.append(str(error))
    paths = [each.path for each in found]
    problems += [
        f"--vary names {path} twice; give all its values in one --vary {path}=A,B"
        for path in dict.fromkeys(paths)
        if paths.count(path) > 1
    ]
    shared = {_normal(each.partition("=")[0]) for each in assignments}
    problems += [
        f"{path} is both in --set and in --vary; leave it out of one"
        for path in paths
        if path in shared
    ]
    if not texts:
        problems.append(
            "nothing is varied: give --vary NAME=A,B, such as "
            "--vary training.learning_rate=0.001,0.003"
        )
    if problems:
        raise UsageError("\n".join(problems))
    return found


def check_grid(varied: Sequence[Varied]) -> list[Choices]:
    """Return ``varied`` if it is all lists; a range raises ``UsageError``."""
    lists = [each for each in varied if isinstance(each, Choices)]
    for each in varied:
        if isinstance(each, Range):
            raise UsageError(
                f"--vary {each.path}={each.low}{RANGE}{each.high} is a range, from "
                "which only a search proposes values: add --search optuna, or list "
                "the values, such as "
                f"--vary {each.path}={each.low},{each.high}"
            )
    return lists


def combinations(varied: Iterable[Choices]) -> Iterator[Settings]:
    """Yield every combination of values; the first setting changes slowest."""
    lists = list(varied)
    for values in product(*(each.values for each in lists)):
        yield dict(zip((each.path for each in lists), values, strict=True))


def assignments_of(settings: Mapping[str, Any]) -> list[str]:
    """Return a combination as ``--set`` takes it."""
    return [f"{path}={json.dumps(value)}" for path, value in settings.items()]


def shown(value: Any) -> str:
    """Return a value as text for tables: a plain text as it is, others as JSON."""
    is_plain = isinstance(value, str) and value and value.isprintable()
    return value if is_plain else json.dumps(value)


def rounded(value: Any) -> str:
    """Return a value as text for readers: numbers with six digits."""
    return f"{value:.6g}" if isinstance(value, float) else shown(value)


def described(settings: Mapping[str, Any]) -> str:
    """Return a combination as text: ``learning_rate=0.003 dropout=0.1``.

    Of a path only its last name is kept.
    """
    return " ".join(
        f"{path.rpartition('.')[2]}={rounded(value)}"
        for path, value in settings.items()
    )


def _parse(text: str) -> Varied:
    path, equals, values = text.partition("=")
    path = _normal(path)
    if not equals or not all(path.split(".")):
        raise UsageError(
            "--vary takes NAME=A,B, such as training.learning_rate=0.001,0.003, not "
            f"{text!r}"
        )
    for name, instead in NOT_VARIED.items():
        if path == name or path.startswith(f"{name}."):
            raise UsageError(f"{path} cannot be varied: {instead}")
    parts = split_values(values)
    if len(parts) == 1 and RANGE in values and values.strip()[:1] not in "'\"[":
        return _parse_range(path, values.strip())
    parsed = [_value(path, part) for part in parts]
    repeated = [
        value
        for index, value in enumerate(parsed)
        if _same_as_any(value, parsed[:index])
    ]
    if repeated:
        raise UsageError(f"--vary {path} has the value {shown(repeated[0])} twice")
    if len(parsed) < 2:
        raise UsageError(
            f"--vary {path} has one value, {shown(parsed[0])}; give two or more, or "
            f"use --set {path}={shown(parsed[0])}"
        )
    return Choices(path, tuple(parsed))


def split_values(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [each.strip() for each in [*parts, text[start:]]]


def _value(path: str, text: str) -> Any:
    if not text:
        raise UsageError(
            f"--vary {path} has an empty value; write '' in quotes for an empty text"
        )
    value = with_overrides({}, [f"value={text}"])["value"]
    if _has_table(value):
        raise UsageError(
            f"--vary {path} takes numbers, texts and lists of them, not the table "
            f"{text}; vary the settings in it by their paths"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"--vary {path} takes finite numbers, not {text}")
    return value


def _has_table(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_table, value))
    return isinstance(value, dict)


def _same_as_any(value: Any, others: Iterable[Any]) -> bool:
    return any(value == other and type(value) is type(other) for other in others)


def _parse_range(path: str, text: str) -> Range:
    log = text.startswith(LOG)
    low, _, high = text.removeprefix(LOG).partition(RANGE)
    ends = []
    for each in (low, high):
        value = _value(path, each.strip())
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(
                f"--vary {path}={text} is not a range of numbers: {each.strip()!r} is "
                f"none; write LOW{RANGE}HIGH or {LOG}LOW{RANGE}HIGH"
            )
        ends.append(value)
    least, most = ends
    if not least < most:
        raise UsageError(
            f"--vary {path}={text} is empty: {shown(least)} is not below {shown(most)}"
        )
    if log and least <= 0:
        raise UsageError(
            f"--vary {path}={text}: a logarithmic range starts above 0, not at "
            f"{shown(least)}"
        )
    return Range(path, least, most, log)


def _normal(path: str) -> str:
    return ".".join(name.strip() for name in path.split("."))
