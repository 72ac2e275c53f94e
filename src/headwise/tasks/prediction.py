"""The output of a model for one input, whatever the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwise.errors import DataError


class InputError(DataError):
    """One of several inputs cannot be used: its index, and why."""

    def __init__(self, index: int, reason: str) -> None:
        # Exception pickles its arguments between processes.
        super().__init__(index, reason)
        self.index = index
        self.reason = reason

    def __str__(self) -> str:
        return f"input {self.index + 1:,}: {self.reason}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """The output for one input."""

    output: str
    """As a line of text."""

    log_probability: float | None
    """Of the whole output, by the model; None where a model gives none to outputs."""

    ranked: Sequence[tuple[str, float]] = ()
    """All possible outputs with their probabilities, best first, where a model gives
    one to each."""

    number: float | None = None
    """What the output writes as text, where a model gives a number."""
