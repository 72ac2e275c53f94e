"""Paired bootstrap resampling (Koehn, 2004), computed by sacreBLEU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headwise.errors import UsageError
from headwise.metrics.bleu_tokenizer import tokenizer_for
from headwise.metrics.score import check_pairs

RESAMPLES = 1000

PAIRED = ("bleu", "chrf", "ter")
"""Metrics that have the test."""


def paired_bootstrap(
    name: str,
    baseline: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    resamples: int = RESAMPLES,
) -> dict[str, float]:
    """Return the p-value of each of ``systems`` against ``baseline``.

    It is the probability of a difference at least as large if both were equally good:
    1 for equal scores, of which sacreBLEU says 1 / (``resamples`` + 1) where those of
    all samples are equal too. All have an output for each of ``references``.
    """
    if name not in PAIRED:
        raise UsageError(
            f"{name!r} has no paired bootstrap test; choose from {', '.join(PAIRED)}"
        )
    for each in (baseline, *systems.values()):
        check_pairs(each, references)
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER
    from sacrebleu.significance import PairedTest

    metrics: dict[str, Callable[[], Any]] = {
        "bleu": lambda: BLEU(tokenize=tokenizer_for(references), force=True),
        "chrf": CHRF,
        "ter": TER,
    }
    test = PairedTest(
        [("", list(baseline)), *((key, list(x)) for key, x in systems.items())],
        {name: metrics[name]()},
        [list(references)],
        test_type="bs",
        n_samples=resamples,
    )
    columns: dict[str, Any] = dict(test()[1])
    del columns["System"]
    (values,) = columns.values()
    return {
        key: 1.0 if result.score == values[0].score else float(result.p_value)
        for key, result in zip(systems, values[1:], strict=True)
    }
