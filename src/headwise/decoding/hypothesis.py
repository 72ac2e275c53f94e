"""A hypothesis: one output of a search with its scores."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output, its log probability, and the score that the search ranks by."""

    tokens: tuple[int, ...]
    """The generated tokens, without START and END."""

    log_probability: float
    """Sum of ln p over the tokens and, if finished, END: the model's own, before rules
    on scores, temperature or a forced prefix. NaN, as ``score`` is, if scores were not
    asked for and the search did without."""

    score: float
    """What the search ranks by, higher is better: the total of its scores (without
    rules ``log_probability``) divided by the length penalty, plus reward and coverage;
    with minimum-Bayes-risk decoding, the expected utility."""

    finished: bool
    """Whether END was generated; False if the length limit cut the output off."""

    token_log_probabilities: tuple[float, ...] = ()
    """ln p of each token given those before it, END's last if ``finished``: they
    add up to ``log_probability``. Empty unless asked for."""

    alignment: tuple[tuple[int, int], ...] = ()
    """Pairs (source position, output position): each token of the output with the
    source token it attends to most. Empty unless asked for."""
