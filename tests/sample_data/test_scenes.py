"""Pictures of shapes: each sentence is true of its pixels, and the only right one."""

import re
from collections import Counter

import numpy as np
import pytest
from tests.sample_data.conftest import everything, words

from headwise.sample_data.scenes import (
    COLOURS,
    SHAPES,
    SIDE,
    Scene,
    Shape,
    scenes,
)
from headwise.sample_data.splits import Sizes, is_held_out


@pytest.fixture(scope="module")
def corpus():
    return scenes(Sizes(2_000, 100, 200), seed=1)


def centres(pixels, colour):
    """Return the rows and columns that have a colour: of all of its shapes."""
    return np.nonzero((pixels == COLOURS[colour]).all(axis=2))


def components(covered):
    """Return the sizes of what hangs together, edges or corners touching."""
    left = set(zip(*np.nonzero(covered), strict=True))
    sizes = []
    while left:
        waiting, size = [left.pop()], 0
        while waiting:
            row, column = waiting.pop()
            size += 1
            around = {(row + y, column + x) for y in (-1, 0, 1) for x in (-1, 0, 1)}
            waiting += around & left
            left -= around
        sizes.append(size)
    return sizes


def test_the_form_of_sentences(corpus):
    one = rf"a ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})"
    several = rf"(two|three) ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)}|cross(?=es))e?s"
    form = re.compile(rf"{one}( (above|to the left of) {one})?|{several}")
    for scene in everything(corpus):
        assert form.fullmatch(scene.sentence), scene.sentence


def test_a_sentence_by_hand():
    cross, ring = Shape("red", "cross", 4, 6, 10), Shape("blue", "ring", 4, 20, 10)
    related = Scene((cross, ring), "above", 20)
    assert related.sentence == "a red cross above a blue ring"
    assert Scene((cross, cross), None, 20).sentence == "two red crosses"


def test_a_cross_by_hand():
    """Radius 4: arms of 9 pixels, each 3 wide: 9 * 3 * 2 less the 9 in the middle."""
    scene = Scene((Shape("red", "cross", 4, 10, 10),), None, 20)
    red = (scene.pixels() == COLOURS["red"]).all(axis=2)
    assert red.sum() == 45
    assert red[6:15, 9:12].all()
    assert red[9:12, 6:15].all()


def test_as_many_shapes_are_seen_as_the_sentence_says(corpus):
    for scene in everything(corpus):
        first = scene.sentence.split()[0]
        number = {"a": 2 if scene.relation else 1, "two": 2, "three": 3}[first]
        covered = (scene.pixels() != scene.background).any(axis=2)
        assert len(components(covered)) == number, scene.sentence
        edge = covered.copy()
        edge[1:-1, 1:-1] = False
        assert not edge.any()


def test_a_relation_holds_and_the_other_one_does_not(corpus):
    for scene in everything(corpus):
        if scene.relation is None:
            continue
        first, second = scene.shapes
        if first.colour == second.colour:
            continue
        (rows, columns), (other_rows, other_columns) = (
            centres(scene.pixels(), shape.colour) for shape in (first, second)
        )
        is_above = rows.max() < other_rows.min()
        is_left = columns.max() < other_columns.min()
        assert is_above == (scene.relation == "above")
        assert is_left == (scene.relation == "to the left of")


def test_shapes_of_one_size_look_different_from_each_other():
    drawn = {
        Scene((Shape("red", name, radius, 16, 16),), None, 20).pixels().tobytes()
        for name in SHAPES
        for radius in (4, 5)
    }
    assert len(drawn) == 2 * len(SHAPES)


def test_every_kind_of_sentence_is_as_frequent_as_described(corpus):
    kinds = Counter((s.relation, min(len(s.shapes), 2)) for s in corpus.train)
    assert kinds == {
        ("above", 2): 500,
        ("to the left of", 2): 500,
        (None, 1): 500,
        (None, 2): 500,
    }


def test_the_test_part_has_combinations_that_training_never_has(corpus):
    train, test = (
        [{c for c in s.combinations if is_held_out(*c, one_in=8)} for s in part]
        for part in ((*corpus.train, *corpus.dev), corpus.test)
    )
    assert all(test)
    assert not any(train)
    shown = {c for s in corpus.train for c in s.combinations}
    assert not {c for held_out in test for c in held_out} & shown


def test_every_word_of_the_test_part_occurs_in_training(corpus):
    train = {word for scene in corpus.train for word in words(scene.sentence)}
    assert {word for scene in corpus.test for word in words(scene.sentence)} <= train


def test_no_picture_occurs_twice(corpus):
    pictures = [scene.pixels() for scene in everything(corpus)]
    assert pictures[0].shape == (SIDE, SIDE, 3)
    assert pictures[0].dtype == np.uint8
    assert len({picture.tobytes() for picture in pictures}) == len(pictures)


def test_the_same_seed_gives_the_same_pictures():
    sizes = Sizes(30, 5, 5)
    assert scenes(sizes, seed=1) == scenes(sizes, seed=1)
    assert scenes(sizes, seed=1) != scenes(sizes, seed=2)
