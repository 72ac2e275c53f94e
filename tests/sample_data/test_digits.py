"""Written digits: each hand writes another one, and the test has new combinations."""

from collections import Counter

import numpy as np
import pytest
from tests.sample_data.conftest import everything

from headwise.sample_data.digits import SIDE, STROKES, Digit, digits
from headwise.sample_data.splits import Sizes

SIZES = Sizes(600, 60, 120)


@pytest.fixture(scope="module")
def corpus():
    return digits(SIZES, seed=1)


def test_every_digit_is_equally_frequent(corpus):
    assert set(Counter(each.label for each in corpus.train).values()) == {60}


def test_no_test_picture_has_a_combination_of_training(corpus):
    def combinations(part):
        return {(each.slant, each.width) for each in part}

    assert not combinations(corpus.test) & combinations(corpus.train)
    assert combinations(corpus.dev) <= combinations(corpus.train)


def test_a_digit_is_light_on_black_within_the_picture(corpus):
    for each in everything(corpus)[:100]:
        pixels = each.pixels()
        assert (pixels.shape, pixels.dtype) == ((SIDE, SIDE), np.uint8)
        assert 10 < (pixels > 128).sum() < 140
        border = np.concatenate([pixels[[0, -1]].ravel(), pixels[:, [0, -1]].ravel()])
        assert (border > 128).mean() < 0.1


def test_most_upright_digits_are_nearest_to_one_of_their_own_kind(corpus):
    """Pixel by pixel: otherwise they would not show what they are called."""
    plain = {
        label: Digit(label, 0.0, 0.9, 10.5, 8.0, 8.0, hand).pixels().astype(float)
        for hand, label in enumerate(STROKES)
    }
    upright = [each for each in corpus.train if each.slant == 0]
    right = sum(
        min(plain, key=lambda label: np.abs(plain[label] - each.pixels()).sum())
        == each.label
        for each in upright
    )
    assert right > 0.6 * len(upright)


def test_the_same_seed_gives_the_same_pictures(corpus):
    again = digits(SIZES, seed=1)

    assert again == corpus
    assert (again.test[0].pixels() == corpus.test[0].pixels()).all()
