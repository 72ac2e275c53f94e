"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output, how probable the model finds it, and how the search ranks it."""

    tokens: tuple[int, ...]
    """What was written, without START and END."""

    log_probability: float
    """Sum of ln p over the tokens and, where the output is finished, END. The model's
    own, whatever rules on scores, temperature or forced beginning there were. NaN, as
    ``score`` is, where nobody asked and the search did without."""

    score: float
    """What the search ranks by, more is better: the total of its scores (without rules
    ``log_probability``) divided by the length penalty, plus reward and coverage; with
    minimum-Bayes-risk choice, the expected utility."""

    finished: bool
    """Whether END was written; False where the length limit cut the output off."""

    token_log_probabilities: tuple[float, ...] = ()
    """ln p of each token given those before it, END's last where ``finished``: they
    add up to ``log_probability``. Empty unless asked for."""

    alignment: tuple[tuple[int, int], ...] = ()
    """Pairs of places, one of a source token and one of a token of the output that
    looks at it most. Empty unless asked for."""
