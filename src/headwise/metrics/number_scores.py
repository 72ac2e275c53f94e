"""Errors and correlation of numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from headwise.errors import DataError, UsageError
from headwise.metrics.score import Score, check_pairs
from headwise.text.number_tokenizer import parse_number


def rmse(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return the root of the mean squared error, in the unit of the numbers."""
    pairs = _numbers(hypotheses, references)
    mean = statistics.fmean((guess - number) ** 2 for guess, number in pairs)
    return Score("RMSE", math.sqrt(mean), "unit:line", False)


def pearson(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return Pearson's correlation, in percent; 0 if all of either are the same."""
    pairs = _numbers(hypotheses, references)
    guesses, numbers = zip(*pairs, strict=True)
    try:
        value = statistics.correlation(guesses, numbers)
    except statistics.StatisticsError:  # no variance, or a single line
        value = 0.0
    return Score("Pearson correlation", 100 * value, "unit:line", True)


def _numbers(
    hypotheses: Sequence[str], references: Sequence[str]
) -> list[tuple[float, float]]:
    """Return the pairs as numbers; raise ``UsageError`` for a line that is none."""
    check_pairs(hypotheses, references)
    return [
        (_number(hypothesis, number), _number(reference, number))
        for number, (hypothesis, reference) in enumerate(
            zip(hypotheses, references, strict=True), start=1
        )
    ]


def _number(text: str, line: int) -> float:
    try:
        return parse_number(text)
    except DataError as error:
        raise UsageError(f"line {line:,}: {error}") from None
