"""All metrics by name, as in settings and on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headwise.errors import UsageError
from headwise.metrics.bleu_chrf_ter import bleu, chrf, ter
from headwise.metrics.error_rates import exact_match, token_error_rate, word_error_rate
from headwise.metrics.label_scores import accuracy, macro_f1, tag_accuracy
from headwise.metrics.multi30k import multi30k_bleu
from headwise.metrics.number_scores import pearson, rmse
from headwise.metrics.score import Score
from headwise.metrics.tree_lines import bracket_f1, complete_match

METRICS: dict[str, Callable[..., Score]] = {
    "bleu": bleu,
    "chrf": chrf,
    "ter": ter,
    "multi30k-bleu": multi30k_bleu,
    "exact-match": exact_match,
    "word-error-rate": word_error_rate,
    "token-error-rate": token_error_rate,
    "accuracy": accuracy,
    "macro-f1": macro_f1,
    "tag-accuracy": tag_accuracy,
    "rmse": rmse,
    "pearson": pearson,
    "bracket-f1": bracket_f1,
    "complete-match": complete_match,
}
"""Functions of hypotheses and references; see also NEED_LANGUAGE."""

NEED_LANGUAGE = frozenset({"multi30k-bleu"})
"""Metrics that need the ``language`` of the text."""

CAN_RESAMPLE = frozenset({"bleu", "chrf", "ter", "multi30k-bleu"})
"""Metrics with bootstrap confidence intervals (sacreBLEU)."""

MAX_RESAMPLED_LINES = 2_000_000
"""Most lines over all resamples: sacreBLEU keeps the statistics of each in memory,
about 40 bytes for BLEU."""


def measure(
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str | None = None,
    resamples: int | None = None,
) -> Score:
    """Compute a metric by name; raise ``UsageError`` for an unknown one.

    ``resamples`` is the number of bootstrap samples for a confidence interval, if the
    metric has one; it is reduced for very long texts, whose interval is narrow.
    """
    if name not in METRICS:
        raise UsageError(f"{name!r} is not a metric; choose from {', '.join(METRICS)}")
    options: dict[str, Any] = {}
    if resamples is not None and name in CAN_RESAMPLE:
        limit = MAX_RESAMPLED_LINES // max(1, len(references))
        options["resamples"] = min(resamples, max(100, limit))
    if name not in NEED_LANGUAGE:
        return METRICS[name](hypotheses, references, **options)
    if language is None:
        raise UsageError(f"{name} needs the language of the text, such as 'de'")
    return METRICS[name](hypotheses, references, language=language, **options)
