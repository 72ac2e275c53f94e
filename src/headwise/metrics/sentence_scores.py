"""Sentence-level scores of texts against each other, for minimum-Bayes-risk decoding.

The scores are sacreBLEU's ``sentence_score``, to the last bit. It would extract the
n-grams of both texts again for each pair; here each text is read once, and all pairs
are counted together.

Letters used for sizes in this file:

    T  texts, each a hypothesis, and a reference for all
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.metrics.bleu_tokenizer import tokenizer_for

PairwiseScores = Callable[[Sequence[str]], list[list[float]]]
"""Takes T texts; row h has the scores of text h with each text as the reference."""

COLUMNS_AT_ONCE = 8192
"""N-grams of one matrix product, which bounds its memory for long texts."""


def pairwise_chrf(texts: Sequence[str]) -> list[list[float]]:
    """Return sentence-level chrF2 of each text with each as the reference: [T T]."""
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.helpers import extract_all_char_ngrams

    counted = [extract_all_char_ngrams(text, CHRF.CHAR_ORDER) for text in texts]
    shape = len(texts), len(texts)
    precision, recall, orders = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for of_order in zip(*counted, strict=True):
        totals = np.array([each.total() for each in of_order], dtype=np.float64)
        matches = count_matches(of_order)
        both = (totals[:, None] > 0) & (totals[None, :] > 0)
        least = np.maximum(totals, 1)
        precision += both * (matches / least[:, None])
        recall += both * (matches / least[None, :])
        orders += both
    precision /= np.maximum(orders, 1)
    recall /= np.maximum(orders, 1)
    factor = CHRF.BETA**2
    below = factor * precision + recall
    scores = (1 + factor) * precision * recall / np.where(below > 0, below, 1)
    found: list[list[float]] = (100 * scores).tolist()
    return found


def pairwise_bleu(texts: Sequence[str]) -> list[list[float]]:
    """Return smoothed sentence-level BLEU of each text with each as the reference."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize=tokenizer_for(texts), effective_order=True)
    words = [metric.tokenizer(text.rstrip()).split() for text in texts]
    orders = range(1, metric.max_ngram_order + 1)
    matches = np.stack(
        [count_matches([_ngrams(each, n) for each in words]) for n in orders], axis=2
    )
    totals = [[max(0, len(each) - n + 1) for n in orders] for each in words]
    return [
        [
            metric.compute_bleu(
                correct,
                list(total),
                len(ours),
                len(theirs),
                smooth_method=metric.smooth_method,
                effective_order=True,
            ).score
            for theirs, correct in zip(words, row, strict=True)
        ]
        for ours, total, row in zip(words, totals, matches.tolist(), strict=True)
    ]


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def count_matches(counted: Sequence[Counter[Any]]) -> NDArray[np.float64]:
    """Return how many n-grams each two texts share, repeats counted: [T T].

    Two texts share min(a, b) of an n-gram that they have a and b times. That is the
    number of k that are at most a and at most b. So the k-th occurrence of an n-gram
    counts as a thing of its own, which a text has or has not, and the sums over all of
    them are a product of matrices of 0 and 1; it is exact in float32.
    """
    having: defaultdict[tuple[Hashable, int], list[int]] = defaultdict(list)
    for row, counter in enumerate(counted):
        for ngram, count in counter.items():
            for k in range(count):
                having[ngram, k].append(row)
    shared = [rows for rows in having.values() if len(rows) > 1]
    matches = np.zeros((len(counted), len(counted)))
    for start in range(0, len(shared), COLUMNS_AT_ONCE):
        block = shared[start : start + COLUMNS_AT_ONCE]
        present = np.zeros((len(counted), len(block)), dtype=np.float32)
        columns = np.repeat(np.arange(len(block)), [len(rows) for rows in block])
        present[np.fromiter(chain.from_iterable(block), np.int64), columns] = 1
        matches += present @ present.T
    # What one text alone has is no column, and matches with itself only.
    np.fill_diagonal(matches, [counter.total() for counter in counted])
    return matches


SENTENCE_SCORES: dict[str, PairwiseScores] = {
    "chrf": pairwise_chrf,
    "bleu": pairwise_bleu,
}
"""Utilities by their name in ``decoding.choose``."""
