"""How alike two sentences are: what minimum-Bayes-risk search can go by."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def _sentence_metrics() -> Any:
    import sacrebleu

    return sacrebleu.CHRF(), sacrebleu.BLEU(effective_order=True)


def sentence_chrf(text: str, other: str) -> float:
    """Return chrF2 (Popović, 2015) of one sentence, as sacreBLEU computes it."""
    chrf, _ = _sentence_metrics()
    return float(chrf.sentence_score(text, [other]).score)


def sentence_bleu(text: str, other: str) -> float:
    """Return smoothed BLEU of one sentence, as sacreBLEU computes it."""
    _, bleu = _sentence_metrics()
    return float(bleu.sentence_score(text, [other]).score)


SENTENCE_SCORES: dict[str, Callable[[str, str], float]] = {
    "chrf": sentence_chrf,
    "bleu": sentence_bleu,
}
"""Every utility under its name in ``decoding.choose``."""
