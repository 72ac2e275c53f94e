"""The output of a model for one input, whatever the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
