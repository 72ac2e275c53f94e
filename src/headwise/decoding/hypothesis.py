"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output, how probable the model finds it, and how the search ranks it."""

    tokens: tuple[int, ...]
    """What was written, without START and END."""

    log_probability: float
    """Sum of ln p over the tokens and, where the output is finished, END."""

    score: float
    """``log_probability`` divided by the length penalty: more is better."""

    finished: bool
    """Whether END was written; False where the length limit cut the output off."""
