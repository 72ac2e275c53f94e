"""Minimum Bayes risk: the output that is most like what else could be meant.

Kumar and Byrne (2004) over n-best lists, Eikema and Aziz (2020) over samples: of the
candidates the one is taken whose expected utility is highest,

    sum over all candidates r of p(r) * utility(candidate, r)

with p the share of the samples, or the probability within the n-best list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from headwise.decoding.hypothesis import Hypothesis

Utility = Callable[[str, str], float]
"""Takes a text and what it is compared with; more is more alike."""


def shares(found: Sequence[Hypothesis], *, sampled: bool) -> list[float]:
    """Return p(r) of each candidate: each sample counts once."""
    if sampled:
        return [1 / len(found)] * len(found)
    most = max(each.log_probability for each in found)
    weights = [math.exp(each.log_probability - most) for each in found]
    return [weight / math.fsum(weights) for weight in weights]


def by_expected_utility(
    found: Sequence[Hypothesis],
    texts: Sequence[str],
    utility: Utility,
    *,
    sampled: bool,
) -> list[Hypothesis]:
    """Return the candidates ranked by expected utility, each text once.

    ``score`` of what comes back is the expected utility. Of equals the more probable
    one comes first.
    """
    weight: dict[str, float] = {}
    best: dict[str, Hypothesis] = {}
    for each, text, share in zip(
        found, texts, shares(found, sampled=sampled), strict=True
    ):
        weight[text] = weight.get(text, 0.0) + share
        if text not in best or best[text].log_probability < each.log_probability:
            best[text] = each
    expected = {
        text: math.fsum(share * utility(text, other) for other, share in weight.items())
        for text in best
    }
    ranked = sorted(
        best, key=lambda text: (-expected[text], -best[text].log_probability)
    )
    return [replace(best[text], score=expected[text]) for text in ranked]
