"""Modified Kneser-Ney: by hand, against the formulas as written, and as a law."""

import math
from collections import Counter

import numpy as np
import pytest
from benchmarks.kneser_ney import FALLBACK, KneserNey, discounts

A, B, C = range(3)


class Readable:
    """The formulas of Chen and Goodman, one token at a time."""

    def __init__(self, text, vocab_size, order):
        self.vocab_size = vocab_size
        self.order = order
        grams = {
            n: [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
            for n in range(1, order + 1)
        }
        self.counts = {order: Counter(grams[order])}
        for n in range(1, order):
            self.counts[n] = Counter(gram[1:] for gram in set(grams[n + 1]))

    def discount(self, n, count):
        times = Counter(self.counts[n].values())
        found = FALLBACK
        if times[1] and times[2] and times[3]:
            y = times[1] / (times[1] + 2 * times[2])
            own = [c - (c + 1) * y * times[c + 1] / times[c] for c in (1, 2, 3)]
            if all(0 <= each <= c for c, each in enumerate(own, 1)):
                found = own
        return found[min(count, 3) - 1]

    def probability(self, token, context):
        n = len(context) + 1
        below = self.probability(token, context[1:]) if n > 1 else 1 / self.vocab_size
        after = {g: c for g, c in self.counts[n].items() if g[:-1] == context}
        if not after:
            return below
        total = sum(after.values())
        count = after.get((*context, token), 0)
        kept = count - self.discount(n, count) if count else 0.0
        gamma = sum(self.discount(n, each) for each in after.values())
        return (kept + gamma * below) / total

    def log_probabilities(self, text):
        before = self.order - 1
        return [
            math.log(self.probability(token, tuple(text[max(0, i - before) : i])))
            for i, token in enumerate(text)
        ]


@pytest.fixture
def text():
    """Tokens whose counts are as unequal as those of words."""
    random = np.random.default_rng(1)
    return np.minimum(random.zipf(1.5, 400) - 1, 11).tolist()


def test_two_bigrams_by_hand():
    """a b a c: each bigram stands once, each token after one other; D(1) = 0.5.

    p(b) = 0.5 / 3 + 1.5 / 3 · 1/3 = 1/3, so p(b | a) = 0.5 / 2 + 1 / 2 · 1/3 = 5/12;
    p(a | b) = 0.5 / 1 + 0.5 / 1 · 1/3 = 2/3; nothing followed c, so p(a | c) = p(a).
    """
    model = KneserNey([A, B, A, C], vocab_size=3, order=2)

    assert np.exp(model.log_probabilities([A, B, A, C])) == pytest.approx(
        [1 / 3, 5 / 12, 2 / 3, 5 / 12]
    )
    assert np.exp(model.log_probabilities([C, A])) == pytest.approx([1 / 3, 1 / 3])


def test_discounts_by_hand():
    """Four counts of 1, two of 2, one of 3, one of 4: Y = 4 / (4 + 2·2) = 1/2.

    D1 = 1 - 2Y·2/4 = 0.5, D2 = 2 - 3Y·1/2 = 1.25, D3 = 3 - 4Y·1/1 = 1.
    """
    counts = np.array([1, 1, 1, 1, 2, 2, 3, 4])

    assert discounts(counts) == pytest.approx([0, 0.5, 1.25, 1.0])


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_it_equals_the_formulas_as_written(text, order):
    other = [*reversed(text[:50]), 12, 3, 13]  # two tokens that were never seen

    fast = KneserNey(text, vocab_size=14, order=order).log_probabilities(other)

    assert fast == pytest.approx(Readable(text, 14, order).log_probabilities(other))


@pytest.mark.parametrize("context", [[], [0], [1, 0, 0, 2], [3, 13, 1], [11, 11, 12]])
def test_probabilities_sum_to_one_after_every_context(text, context):
    model = KneserNey(text, vocab_size=14, order=4)

    total = sum(
        np.exp(model.log_probabilities([*context, token])[-1]) for token in range(14)
    )

    assert total == pytest.approx(1.0)


def test_a_text_shorter_than_the_order_is_refused():
    with pytest.raises(ValueError, match="order=5"):
        KneserNey([A, B], vocab_size=3, order=5)
