"""BLEU, chrF and TER, computed by sacreBLEU.

sacreBLEU takes half a second to import, so functions import it when they are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headwise.metrics.bleu_tokenizer import tokenizer_for
from headwise.metrics.score import Score, check_pairs

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str | None = None,
    resamples: int | None = None,
) -> Score:
    """Return cased, detokenised BLEU (sacreBLEU, Post 2018).

    ``tokenize`` is a tokenizer of sacreBLEU, by default the one that suits the script
    of the references: :func:`tokenizer_for`. ``resamples``: bootstrap samples for a
    confidence interval, usually 1,000.
    """
    check_pairs(hypotheses, references)
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize=tokenize or tokenizer_for(references), force=True)
    return corpus_score("BLEU", metric, hypotheses, references, resamples=resamples)


def chrf(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    resamples: int | None = None,
) -> Score:
    """Return chrF2, the F-score of character n-grams (Popović, 2015)."""
    check_pairs(hypotheses, references)
    from sacrebleu.metrics.chrf import CHRF

    return corpus_score("chrF", CHRF(), hypotheses, references, resamples=resamples)


def ter(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    resamples: int | None = None,
) -> Score:
    """Return TER, edits and shifts per 100 reference words (Snover, 2006)."""
    check_pairs(hypotheses, references)
    from sacrebleu.metrics.ter import TER

    return corpus_score(
        "TER",
        TER(),
        hypotheses,
        references,
        higher_is_better=False,
        resamples=resamples,
    )


def corpus_score(
    name: str,
    metric: Metric,
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    higher_is_better: bool = True,
    resamples: int | None = None,
) -> Score:
    """Compute a metric of sacreBLEU with one reference per hypothesis."""
    result: Any = metric.corpus_score(
        list(hypotheses), [list(references)], n_bootstrap=resamples or 1
    )
    return Score(
        name=name,
        value=float(result.score),
        signature=metric.get_signature().format(),
        higher_is_better=higher_is_better,
        interval=None if resamples is None else float(result._ci),
    )
