"""Cut a row of tokens that is longer than a model reads into windows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def windows(tokens: Sequence[int], most: int | None) -> list[list[int]]:
    """Cut a text into as few windows of at most ``most`` tokens as there can be.

    They are of equal length, up to one token, longer ones first. No window for an empty
    text.
    """
    if not tokens:
        return []
    count = 1 if most is None else -(-len(tokens) // most)
    shorter, longer = divmod(len(tokens), count)
    bounds = [index * shorter + min(index, longer) for index in range(count + 1)]
    return [[*tokens[start:stop]] for start, stop in itertools.pairwise(bounds)]
