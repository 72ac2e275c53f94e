"""The metrics that settings and the command line can name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headwise.errors import UsageError
from headwise.metrics.error_rates import exact_match, token_error_rate, word_error_rate
from headwise.metrics.multi30k import multi30k_bleu
from headwise.metrics.score import Score
from headwise.metrics.translation import bleu, chrf, ter

METRICS: dict[str, Callable[..., Score]] = {
    "bleu": bleu,
    "chrf": chrf,
    "ter": ter,
    "multi30k-bleu": multi30k_bleu,
    "exact-match": exact_match,
    "word-error-rate": word_error_rate,
    "token-error-rate": token_error_rate,
}
"""Each takes hypotheses and references; see also NEED_LANGUAGE."""

NEED_LANGUAGE = frozenset({"multi30k-bleu"})
"""Metrics that must be told the ``language`` of the text."""

CAN_RESAMPLE = frozenset({"bleu", "chrf", "ter", "multi30k-bleu"})
"""Metrics that give a confidence interval by bootstrap, through sacreBLEU."""

MAX_RESAMPLED_LINES = 2_000_000
"""Lines drawn by all resamples together at most: sacreBLEU holds what it counted of
each at once, about 40 bytes for BLEU."""


def measure(
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str | None = None,
    resamples: int | None = None,
) -> Score:
    """Compute the metric of this name; ``language`` goes to those that need it.

    ``resamples`` asks for a confidence interval where a metric can give one; for very
    long texts, whose interval is narrow, there are fewer.
    """
    if name not in METRICS:
        raise UsageError(f"{name!r} is not a metric; known: {', '.join(METRICS)}")
    how: dict[str, Any] = {}
    if resamples is not None and name in CAN_RESAMPLE:
        affordable = MAX_RESAMPLED_LINES // max(1, len(references))
        how["resamples"] = min(resamples, max(100, affordable))
    if name not in NEED_LANGUAGE:
        return METRICS[name](hypotheses, references, **how)
    if language is None:
        raise UsageError(f"{name} needs the language of the text, such as 'de'")
    return METRICS[name](hypotheses, references, language=language, **how)
