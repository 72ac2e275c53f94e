"""Minimum-Bayes-risk decoding: rank outputs by their expected utility.

Kumar and Byrne (2004) over n-best lists, Eikema and Aziz (2020) over samples. The
expected utility of a hypothesis h is

    sum over all hypotheses r of p(r) * utility(h, r)

with p the share of the samples, or the probability within the n-best list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import mul

from headwise.decoding.hypothesis import Hypothesis

Utility = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Takes texts; row h has the similarity of text h to each as the reference. All pairs
at once, so that each text is read once: pair by pair, 256 texts took 17 seconds."""


def probabilities(found: Sequence[Hypothesis], *, sampled: bool) -> list[float]:
    """Return p(r) of each hypothesis; samples are equally probable."""
    if sampled:
        return [1 / len(found)] * len(found)
    most = max(each.log_probability for each in found)
    weights = [math.exp(each.log_probability - most) for each in found]
    return [weight / math.fsum(weights) for weight in weights]


def rank_by_expected_utility(
    found: Sequence[Hypothesis],
    texts: Sequence[str],
    utility: Utility,
    *,
    sampled: bool,
) -> list[Hypothesis]:
    """Return the hypotheses ranked by expected utility, each text once.

    Their ``score`` is the expected utility. Ties go to the more probable hypothesis.
    """
    weight: dict[str, float] = {}
    best: dict[str, Hypothesis] = {}
    for each, text, p in zip(
        found, texts, probabilities(found, sampled=sampled), strict=True
    ):
        weight[text] = weight.get(text, 0.0) + p
        if text not in best or best[text].log_probability < each.log_probability:
            best[text] = each
    expected = {
        text: math.fsum(map(mul, weight.values(), row))
        for text, row in zip(weight, utility(list(weight)), strict=True)
    }
    ranked = sorted(
        best, key=lambda text: (-expected[text], -best[text].log_probability)
    )
    return [replace(best[text], score=expected[text]) for text in ranked]
