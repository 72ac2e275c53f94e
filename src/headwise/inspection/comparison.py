"""Outputs of a model before and after it is changed for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FoundOutput:
    """One output of a search, or one label of a classifier."""

    text: str
    score: float | None
    """By which outputs are ranked; None of a number, which has neither."""

    log_probability: float | None
    """Of the model that wrote it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An output, and what a changed model needs to give its probability."""

    output: FoundOutput
    tokens: Any


@dataclass(frozen=True, slots=True)
class Comparison:
    """Outputs before and after interventions, best first."""

    source: str
    interventions: tuple[str, ...]
    before: tuple[FoundOutput, ...]
    after: tuple[FoundOutput, ...]

    before_changed: float | None
    """ln p of the best output before, as the changed model sees it; None of a
    number."""

    @property
    def differs(self) -> bool:
        """Whether the best output is another text."""
        return self.before[0].text != self.after[0].text
