"""Sentence-level scores, the utilities of minimum-Bayes-risk decoding."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def _sentence_metrics() -> Any:
    import sacrebleu

    return sacrebleu.CHRF(), sacrebleu.BLEU(effective_order=True)


def sentence_chrf(text: str, other: str) -> float:
    """Return sentence-level chrF2 (sacreBLEU)."""
    chrf, _ = _sentence_metrics()
    return float(chrf.sentence_score(text, [other]).score)


def sentence_bleu(text: str, other: str) -> float:
    """Return smoothed sentence-level BLEU (sacreBLEU)."""
    _, bleu = _sentence_metrics()
    return float(bleu.sentence_score(text, [other]).score)


SENTENCE_SCORES: dict[str, Callable[[str, str], float]] = {
    "chrf": sentence_chrf,
    "bleu": sentence_bleu,
}
"""Utilities by their name in ``decoding.choose``."""
