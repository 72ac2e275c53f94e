"""Rules of searches on arrays: which tokens may not come next.

They are those of :mod:`headwise.decoding.logits_processors`, without torch;
``tests/decoding/test_native_search.py`` holds searches with them equal.

Letters used for sizes: R rows, one a hypothesis; L tokens generated so far; M tokens
that a rule may ban in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from headwise.backends.native.arrays import Array

NO_TOKEN = -1

NativeRule = Callable[[Array, Array], Array]
"""Generated tokens [R L] and the sentence of each row [R] to the tokens [R M] that may
not come next; ``NO_TOKEN`` where there are fewer."""


def no_repeat_ngrams(size: int) -> NativeRule:
    """Ban every sequence of ``size`` tokens that the output already contains."""

    def rule(generated: Array, sentences: Array) -> Array:
        length = generated.shape[1]
        if length < size:
            return np.empty((len(generated), 0), dtype=np.int64)
        ngrams = sliding_window_view(generated, size, axis=1)  # R L -> R M size
        tail = generated[:, None, length - size + 1 :]
        repeats = (ngrams[:, :, :-1] == tail).all(axis=2)
        return np.where(repeats, ngrams[:, :, -1], NO_TOKEN)

    return rule


def min_length(lengths: Sequence[int], end: int) -> NativeRule:
    """Ban END before the least length of each sentence."""
    least = np.array(lengths)

    def rule(generated: Array, sentences: Array) -> Array:
        is_short = least[sentences] > generated.shape[1]
        return np.where(is_short, end, NO_TOKEN)[:, None]

    return rule


def exact_count(token: int, counts: Sequence[int], end: int) -> NativeRule:
    """Ban ``token`` after the count of each sentence, and END before it."""
    wanted = np.array(counts)

    def rule(generated: Array, sentences: Array) -> Array:
        found = (generated == token).sum(axis=1)
        return np.where(found >= wanted[sentences], token, end)[:, None]

    return rule


def banned_tokens(
    rules: Sequence[NativeRule], generated: Array, sentences: Array
) -> Array:
    """Return what any of the rules bans in each row [R M]."""
    return np.concatenate([rule(generated, sentences) for rule in rules], axis=1)


def best_allowed(
    log_p: Array, tokens: Array, banned: Array, count: int
) -> tuple[Array, Array]:
    """Return ln p and ids of the ``count`` best tokens that are not banned, best first.

    ``log_p`` and ``tokens`` hold the best of each row, in order, as many more as
    :func:`num_banned`. If too few are allowed, banned ones follow, at -inf.
    """
    is_banned = (tokens[:, :, None] == banned[:, None, :]).any(axis=2)
    log_p = np.where(is_banned, -np.inf, log_p).astype(np.float32)
    order = np.argsort(-log_p, axis=1, kind="stable")[:, :count]
    rows = np.arange(len(tokens))[:, None]
    return log_p[rows, order], tokens[rows, order]


def num_banned(banned: Array) -> int:
    """Return the largest number of tokens that are banned in a row."""
    return int((banned != NO_TOKEN).sum(axis=1).max())
