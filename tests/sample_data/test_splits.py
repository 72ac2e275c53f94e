"""Parts of generated data: distinct, repeatable, and as large as asked."""

import pytest

from headwise.errors import UsageError
from headwise.sample_data.splits import Sizes, is_held_out, split


def digits(sizes, most=1_000, group=1):
    """Split numbers; those that end in 7 are for the test."""

    def draw(rng, number):
        return [rng.randrange(most) for _ in range(group)]

    def for_test(number):
        return number % 10 == 7

    return split(draw, key=lambda n: n, for_test=for_test, sizes=sizes, seed=1)


def test_the_parts_are_distinct_and_as_large_as_asked():
    parts = digits(Sizes(300, 30, 40))

    everything = [*parts.train, *parts.dev, *parts.test]
    assert (len(parts.train), len(parts.dev), len(parts.test)) == (300, 30, 40)
    assert len(set(everything)) == 370
    assert {n % 10 == 7 for n in (*parts.train, *parts.dev)} == {False}
    assert {n % 10 for n in parts.test} == {7}


def test_a_part_has_its_size_though_a_group_is_larger():
    assert len(digits(Sizes(10, 0, 0), group=3).train) == 10


def test_more_than_there_are_is_an_error_that_says_how_many_there_are():
    with pytest.raises(UsageError, match="there are about 10; ask for fewer"):
        digits(Sizes(0, 0, 11), most=100)


def test_a_size_below_0_is_an_error():
    with pytest.raises(UsageError, match="dev must be 0 or more, not -1"):
        Sizes(1, -1, 1)


def test_what_is_held_out_never_changes():
    """The CRC-32 of "blue square" is 960,995,896, which 7 divides and 9 does not."""
    assert is_held_out("blue", "square", one_in=7)
    assert not is_held_out("blue", "square", one_in=9)
