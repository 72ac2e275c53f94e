"""What the tests of data share: small corpora, written as ``prepare`` writes them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from headwise.data.example_stores import PairStore, WeightedRange
from headwise.data.npy_files import NpyWriter

Rows = Sequence[tuple[Sequence[int], Sequence[int]]]


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> Callable[..., PairStore]:
    """Return a function that writes pairs of token rows and opens them."""
    folder = tmp_path_factory.mktemp("stores")

    def write(rows: Rows, ranges: Sequence[WeightedRange] | None = None) -> PairStore:
        tokens, offsets = Path(folder / "tokens.npy"), Path(folder / "offsets.npy")
        for path in (tokens, offsets):  # older stores keep what they have mapped
            path.unlink(missing_ok=True)
        sides = [side for pair in rows for side in pair]
        with NpyWriter(tokens, np.uint16) as array:
            for side in sides:
                array.append(side)
        with NpyWriter(offsets, np.int64) as array:
            array.append(np.cumsum([0, *map(len, sides)]))
        return PairStore(tokens, offsets, ranges)

    return write
