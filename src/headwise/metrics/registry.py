"""The metrics that settings and the command line can name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwise.errors import UsageError
from headwise.metrics.exact import exact_match, token_error_rate, word_error_rate
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


def measure(
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str | None = None,
) -> Score:
    """Compute the metric of this name; ``language`` goes to those that need it."""
    if name not in METRICS:
        raise UsageError(f"{name!r} is not a metric; known: {', '.join(METRICS)}")
    if name not in NEED_LANGUAGE:
        return METRICS[name](hypotheses, references)
    if language is None:
        raise UsageError(f"{name} needs the language of the text, such as 'de'")
    return METRICS[name](hypotheses, references, language=language)
