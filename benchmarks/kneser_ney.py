"""Modified Kneser-Ney: the n-gram model that neural language models are measured by.

Chen and Goodman, "An Empirical Study of Smoothing Techniques for Language Modeling"
(1998). For a token w after a context h of n - 1 tokens,

    p(w | h) = (c(h w) - D(c(h w))) / c(h) + gamma(h) / c(h) · p(w | h')

where h' is h without its first token, c(h) the sum of c(h w) over w, and gamma(h) what
the discounts D took away, so that the sum over w is 1. Of the highest order c counts
occurrences, of lower ones the different tokens that stand before; below the order 1 all
tokens are equally probable. Each order has a discount of its own for counts of 1, of 2,
and of 3 or more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FALLBACK = (0.5, 1.0, 1.5)
"""Discounts where counts of counts give none, as in a small text (KenLM's)."""


@dataclass(frozen=True)
class Order:
    """The n-grams of one length.

    An n-gram is one number, its key: the index of its first n - 1 tokens among the
    n-grams of the order below, times the size of the vocabulary, plus its last token.
    """

    keys: Ints
    """Ascending; the index of a key is that of its n-gram."""

    probability: Floats
    """Of each n-gram: its discounted count over that of its context."""

    backoff: Floats
    """Of each context: what is left for the order below."""


class KneserNey:
    """An interpolated modified Kneser-Ney model of token ids."""

    def __init__(self, tokens: ArrayLike, vocab_size: int, order: int = 5) -> None:
        text = np.asarray(tokens, dtype=np.int64)
        if order < 1 or len(text) < order:
            raise ValueError(f"order={order} needs as many tokens, not {len(text):,}")
        self.vocab_size = vocab_size
        self.orders: list[Order] = []
        contexts = 1
        for keys, counts in _counted(text, vocab_size, order):
            self.orders.append(_order(keys, counts, contexts, vocab_size))
            contexts = len(keys)

    def log_probabilities(self, tokens: ArrayLike) -> Floats:
        """Return ln p of every token of a text, from those before it."""
        text = np.asarray(tokens, dtype=np.int64)
        found = np.full(len(text), 1 / self.vocab_size)
        for probabilities, backoff, n in self._parts(text):
            found[n - 1 :] = probabilities + backoff * found[n - 1 :]
        return np.log(found)

    def _parts(self, text: Ints) -> Iterator[tuple[Floats, Floats, int]]:
        """Yield what each order adds for each token that has a context so long."""
        context = np.zeros(len(text) + 1, np.int64)
        for n, order in enumerate(self.orders, start=1):
            context, last = context[:-1], text[n - 1 :]
            is_known = context >= 0
            key = np.where(is_known, context * self.vocab_size + last, -1)
            index = np.searchsorted(order.keys, key)
            index[index == len(order.keys)] = 0
            is_known_too = order.keys[index] == key
            yield (
                np.where(is_known_too, order.probability[index], 0.0),
                np.where(is_known, order.backoff[context], 1.0),
                n,
            )
            context = np.where(is_known_too, index, -1)


def _counted(text: Ints, vocab_size: int, order: int) -> list[tuple[Ints, Ints]]:
    """Return the keys and counts of each order, the lowest first."""
    found: list[tuple[Ints, Ints]] = []
    index = np.zeros(len(text) + 1, np.int64)  # the empty context, everywhere
    for n in range(1, order + 1):
        keys, first, longer, counts = np.unique(
            index[:-1] * vocab_size + text[n - 1 :],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        if found:
            # Each n-gram has one token before its last n - 1: one more for their count.
            below, _ = found[-1]
            found[-1] = below, np.bincount(index[first + 1], minlength=len(below))
        found.append((keys, counts))
        index = longer
    return found


def discounts(counts: Ints) -> Floats:
    """Return what is taken from a count: by the count, 3 for all that are more."""
    once, twice, thrice, four = (int((counts == c).sum()) for c in (1, 2, 3, 4))
    if min(once, twice, thrice) == 0:
        return np.array([0.0, *FALLBACK])
    y = once / (once + 2 * twice)
    found = [1 - 2 * y * twice / once, 2 - 3 * y * thrice / twice]
    found.append(3 - 4 * y * four / thrice)
    usable = all(0 <= each <= count for count, each in enumerate(found, start=1))
    return np.array([0.0, *(found if usable else FALLBACK)])


def _order(keys: Ints, counts: Ints, contexts: int, vocab_size: int) -> Order:
    context = keys // vocab_size
    taken = discounts(counts)[np.minimum(counts, 3)]
    total = np.bincount(context, weights=counts, minlength=contexts)
    left = np.bincount(context, weights=taken, minlength=contexts)
    some = total > 0  # nothing may have followed, as at the end of the text
    total[~some] = 1.0
    return Order(
        keys=keys,
        probability=(counts - taken) / total[context],
        backoff=np.where(some, left / total, 1.0),
    )
