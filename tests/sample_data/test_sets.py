"""Lines without order: every label is right, and no place says more than another."""

from collections import Counter

import pytest
from tests.sample_data.conftest import everything, shares

from headwise.sample_data.sets import MOST, SYMBOLS, most_frequent, sums
from headwise.sample_data.splits import Sizes

SIZES = Sizes(8_000, 200, 400)


@pytest.fixture(scope="module")
def lines():
    return most_frequent(SIZES, seed=1)


def test_the_label_is_the_one_symbol_that_occurs_most_often(lines):
    for line in everything(lines):
        (first, most), (_, next_most) = Counter(line.text.split()).most_common(2)
        assert (first, most > next_most) == (line.label, True)


def test_every_symbol_is_the_label_equally_often(lines):
    assert set(shares(line.label for line in lines.train).values()) == {1 / 8}
    assert {line.label for line in lines.train} == set(SYMBOLS)


def test_the_label_stands_at_each_place_as_often_as_at_any_other(lines):
    """In lines of one length; 4 deviations are allowed."""
    for length in range(8, MOST + 1):
        these = [x for x in lines.train if len(x.text.split()) == length]
        hits = [sum(x.text.split()[i] == x.label for x in these) for i in range(length)]
        mean = sum(hits) / length
        assert all(abs(hit - mean) < 4 * mean**0.5 for hit in hits)


def test_a_sum_is_right_and_every_length_occurs():
    lines = everything(sums(seed=1))
    assert all(sum(map(int, x.text.split())) == int(x.label) for x in lines)
    assert {len(x.text.split()) for x in lines} == {2, 3, 4, 5}


@pytest.mark.parametrize("generate", [most_frequent, sums])
def test_no_line_is_another_in_another_order(generate):
    lines = everything(generate(Sizes(1_000, 50, 100), seed=2))
    assert len({tuple(sorted(x.text.split())) for x in lines}) == len(lines)


@pytest.mark.parametrize("generate", [most_frequent, sums])
def test_the_same_seed_gives_the_same_lines(generate):
    once, again, other = (generate(Sizes(50, 5, 5), seed=n) for n in (1, 1, 2))
    assert once == again
    assert once != other


def test_a_seed_means_the_same_everywhere():
    """Recorded, so that no version of Python changes the lines unseen."""
    line = most_frequent(Sizes(1, 0, 0), seed=1).train[0]
    assert (line.text, line.label) == RECORDED


RECORDED = ("b e b a a a g", "a")
