"""Random numbers by their place: those of SplitMix64, in any order."""

import numpy as np

from headwise.data.random_bits import random_bits, split_mix, to_uniform


def test_the_numbers_are_those_of_splitmix64():
    """The first five of the seed 1234567, as printed by other implementations."""
    known = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    seed, places = np.array([1234567], np.uint64), np.arange(1, 6, dtype=np.uint64)

    assert split_mix(seed, places).tolist() == known


def test_a_number_depends_on_its_index_and_the_keys_and_on_nothing_else():
    together = random_bits(np.arange(100), 1, 2, 3)
    alone = [int(random_bits(np.array([index]), 1, 2, 3)[0]) for index in range(100)]

    assert together.tolist() == alone
    others = [random_bits(np.arange(100), *keys) for keys in ((2, 1, 3), (1, 2, 4))]
    assert len({*together.tolist(), *np.concatenate(others).tolist()}) == 300


def test_keys_may_be_as_large_as_seeds():
    random_bits(np.arange(3), 2**63 - 1, 10_000)


def test_uniform_numbers_fill_their_range_evenly():
    numbers = to_uniform(random_bits(np.arange(100_000), 7))

    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert abs(counts - 10_000).max() < 400  # four standard deviations


def test_the_ends_of_the_range():
    bits = np.array([0, 2**64 - 1], np.uint64)

    assert to_uniform(bits).tolist() == [0.0, 1 - 2.0**-53]
