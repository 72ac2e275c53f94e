"""Random numbers that are functions of their place, so that none needs those before it.

SplitMix64 (Steele et al. 2014, "Fast Splittable Pseudorandom Number Generators"): its
n-th number is a hash of the seed and n.

Letters used for sizes in this file: N numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""What the state of SplitMix64 grows by."""


def random_bits(indices: NDArray[np.int64], *keys: int) -> NDArray[np.uint64]:
    """Return 64 random bits for each of the indices [N] under these keys [N].

    Keys are from 0 to 2^64 - 1.
    """
    state = np.zeros(1, np.uint64)
    for key in keys:
        state = split_mix(state ^ np.uint64(key), np.ones(1, np.uint64))
    return split_mix(state, indices.astype(np.uint64) + np.uint64(1))


def split_mix(
    seed: NDArray[np.uint64], number: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the numbers of SplitMix64 at these places [N], counted from 1."""
    z = seed + GAMMA * number
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def to_uniform(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a uniform number in [0, 1) for each 64 bits [N]."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
