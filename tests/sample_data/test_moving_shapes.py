"""Videos: a frame alone is at chance by construction, and all of them say the class."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from tests.sample_data.conftest import everything, shares

from headwise.sample_data.moving_shapes import (
    BRIGHTNESS,
    FRAMES,
    SHAPES,
    SIDE,
    SPEEDS,
    STEPS,
    Video,
    videos,
)
from headwise.sample_data.splits import Sizes, is_held_out

PLACES = list(product(range(SIDE), range(SIDE)))


@pytest.fixture(scope="module")
def corpus():
    return videos(seed=1)


def frame_counts(label, shape, speed, phase):
    """Count each frame's pictures over all first places, which are equally likely."""
    counts = [Counter() for _ in range(FRAMES)]
    for row, column in PLACES:
        frames = Video(label, shape, 255, speed, phase, row, column).frames()
        for time, frame in enumerate(frames):
            counts[time][frame.tobytes()] += 1
    return counts


@pytest.mark.parametrize("shape", ["square", "x"])
def test_a_single_frame_has_the_same_distribution_in_all_classes(shape):
    """Exactly: each of the 256 pictures once, at any time, in any movement."""
    distributions = [
        counts
        for label, steps in STEPS.items()
        for speed in SPEEDS
        for phase in {0, len(steps) - 1}
        for counts in frame_counts(label, shape, speed, phase)
    ]
    assert all(counts == distributions[0] for counts in distributions)
    assert set(distributions[0].values()) == {1}
    assert len(distributions[0]) == len(PLACES)


def test_how_a_shape_looks_says_nothing_of_the_class(corpus):
    """Of any shape or brightness, each class has about a sixth; 4 deviations pass."""
    for trait, values in (("shape", SHAPES), ("brightness", BRIGHTNESS)):
        for value in values:
            labels = [v.label for v in corpus.train if getattr(v, trait) == value]
            mean = len(labels) / len(STEPS)
            counts = Counter(labels)
            assert all(abs(counts[x] - mean) < 4 * mean**0.5 for x in STEPS)


def test_a_movement_by_hand():
    """A cross goes right by 2 pixels a frame, out at one edge and in at the other."""
    frames = Video("right", "cross", 95, 2, 0, 0, 10).frames()

    assert frames.shape == (FRAMES, SIDE, SIDE)
    assert np.flatnonzero(frames[0, 2]).tolist() == [10, 11, 12, 13, 14]
    assert np.flatnonzero(frames[1, 2]).tolist() == [0, 12, 13, 14, 15]
    assert np.flatnonzero(frames[2, 2]).tolist() == [0, 1, 2, 14, 15]
    assert set(np.unique(frames)) == {0, 95}


@pytest.mark.parametrize("label", ["clockwise", "anticlockwise"])
def test_round_a_square_and_back(label):
    steps = np.array(STEPS[label])
    assert steps.sum(axis=0).tolist() == [0, 0]
    down, right = steps[2:4].sum(axis=0)  # after the first side, the next one
    first = steps[:2].sum(axis=0)
    turn = first[1] * down - first[0] * right
    assert (turn > 0) == (label == "clockwise")


def test_two_frames_and_a_corner_say_the_class():
    """No two classes have a video in common, so that all frames decide."""
    seen = {}
    for label, steps in STEPS.items():
        for speed, phase, (row, column) in product(
            SPEEDS, range(len(steps)), PLACES[::17]
        ):
            frames = Video(label, "square", 255, speed, phase, row, column).frames()
            assert seen.setdefault(frames.tobytes(), label) == label


def test_every_shape_is_its_own_mirror_image():
    for drawn in SHAPES.values():
        assert [line[::-1] for line in drawn] == list(drawn) == list(drawn)[::-1]


def test_the_parts_are_distinct_and_the_test_looks_as_training_never_does(corpus):
    assert len({v.frames().tobytes() for v in everything(corpus)}) == 12_600
    train, test = (
        {(v.shape, v.brightness) for v in part} for part in (corpus.train, corpus.test)
    )
    assert test
    assert not train & test
    assert all(is_held_out(*looks, one_in=6) for looks in test)
    for each in (0, 1):
        assert {looks[each] for looks in test} <= {looks[each] for looks in train}
    assert len(set(shares(v.label for v in corpus.test).values())) == 1


def test_the_same_seed_gives_the_same_videos():
    sizes = Sizes(30, 5, 5)
    assert videos(sizes, seed=1) == videos(sizes, seed=1)
    assert videos(sizes, seed=1) != videos(sizes, seed=2)
