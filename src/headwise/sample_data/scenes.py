"""Pictures of coloured shapes, and the one sentence that describes each.

    a red circle
    three green triangles
    a red circle above a blue square
    a white star to the left of a yellow diamond

Shapes are named from top to bottom or from left to right, so that a picture has one
right sentence. The test part shows combinations of colour, shape and role that training
never does, such as a red circle that is above something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from headwise.sample_data.splits import Sizes, Splits, is_held_out, split

SIDE = 32
"""Height and width of a picture in pixels."""

COLOURS = {
    "red": (220, 40, 40),
    "green": (40, 180, 60),
    "blue": (60, 90, 230),
    "yellow": (240, 220, 50),
    "purple": (160, 60, 200),
    "white": (250, 250, 250),
}

Mask = NDArray[np.bool_]
Offsets = NDArray[np.int_]

SHAPES: dict[str, Callable[[Offsets, Offsets, int], Mask]] = {
    "circle": lambda y, x, r: y * y + x * x <= r * r + r // 2,
    "square": lambda y, x, r: np.maximum(abs(y), abs(x)) <= r - 1,
    "triangle": lambda y, x, r: (2 * abs(x) <= y + r) & (y <= r - 1),
    "diamond": lambda y, x, r: abs(y) + abs(x) <= r,
    "cross": lambda y, x, r: (
        (np.minimum(abs(y), abs(x)) <= r // 3) & (np.maximum(abs(y), abs(x)) <= r)
    ),
    "ring": lambda y, x, r: (
        (y * y + x * x <= r * r + r // 2)
        & (y * y + x * x > (r - 2) * (r - 2) + (r - 2) // 2)
    ),
}
"""Name -> which pixels it covers; y down and x right from its centre, r its radius."""

RADII = (4, 5)
BACKGROUND = (8, 48)
"""Least and greatest level of the dark gray behind the shapes."""

RELATIONS = {"above": (1, 0), "to the left of": (0, 1)}
"""Relation -> how the second shape lies, seen from the first: down, right."""

ASIDE = 4
"""Pixels that one of two related shapes may at most lie aside of the other."""

COUNTS = {2: "two", 3: "three"}

SIZES = Sizes(24_000, 300, 600)
ONE_IN = 8
"""One in so many combinations of colour, shape and role is for the test."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape in its place."""

    colour: str
    name: str
    radius: int
    row: int
    column: int

    @property
    def described(self) -> str:
        """What it is called: a red circle."""
        return f"a {self.colour} {self.name}"


@dataclass(frozen=True, slots=True)
class Scene:
    """Shapes in front of dark gray, from which pixels and sentence follow."""

    shapes: tuple[Shape, ...]
    relation: str | None
    """Of two different shapes; None for one, or for several of a kind."""

    background: int

    @property
    def sentence(self) -> str:
        """The sentence that describes the picture."""
        first = self.shapes[0]
        if self.relation is not None:
            return f"{first.described} {self.relation} {self.shapes[1].described}"
        if len(self.shapes) == 1:
            return first.described
        plural = f"{first.name}es" if first.name.endswith("s") else f"{first.name}s"
        return f"{COUNTS[len(self.shapes)]} {first.colour} {plural}"

    @property
    def combinations(self) -> tuple[tuple[str, str, str], ...]:
        """Colour, shape and role of each kind of shape."""
        if self.relation is None:
            first = self.shapes[0]
            return ((first.colour, first.name, str(len(self.shapes))),)
        return tuple(
            (shape.colour, shape.name, f"{self.relation} {place}")
            for place, shape in enumerate(self.shapes)
        )

    def pixels(self) -> NDArray[np.uint8]:
        """Draw the picture [H W C] in RGB."""
        picture = np.full((SIDE, SIDE, 3), self.background, dtype=np.uint8)
        rows, columns = np.mgrid[:SIDE, :SIDE]
        for shape in self.shapes:
            y, x = rows - shape.row, columns - shape.column
            covered = SHAPES[shape.name](y, x, shape.radius)
            picture[covered] = COLOURS[shape.colour]
        return picture


def scenes(sizes: Sizes = SIZES, *, seed: int = 1) -> Splits[Scene]:
    """Generate pictures: a quarter of one shape, a quarter of several, half of two."""
    return split(
        _scene, key=lambda scene: scene, for_test=_for_test, sizes=sizes, seed=seed
    )


def _for_test(scene: Scene) -> bool:
    return any(is_held_out(*each, one_in=ONE_IN) for each in scene.combinations)


def _scene(rng: Random, number: int) -> list[Scene]:
    kind = number % 4
    background = rng.randint(*BACKGROUND)
    if kind < 2:
        relation = list(RELATIONS)[kind]
        return [Scene(_related(rng, relation), relation, background)]
    count = 1 if kind == 2 else rng.choice(list(COUNTS))
    return [Scene(_alike(rng, count), None, background)]


def _alike(rng: Random, count: int) -> tuple[Shape, ...]:
    """Draw shapes of one kind, none of which touches another."""
    colour, name, radius = _kind(rng)
    while True:
        shapes = tuple(
            Shape(colour, name, radius, _place(rng, radius), _place(rng, radius))
            for _ in range(count)
        )
        gaps = (
            max(abs(a.row - b.row), abs(a.column - b.column))
            for index, a in enumerate(shapes)
            for b in shapes[:index]
        )
        if all(gap > 2 * radius + 1 for gap in gaps):
            return tuple(sorted(shapes, key=lambda s: (s.row, s.column)))


def _related(rng: Random, relation: str) -> tuple[Shape, ...]:
    """Draw two different shapes, clearly in this relation and in no other."""
    first, second = _kind(rng), _kind(rng)
    while first[:2] == second[:2]:
        second = _kind(rng)
    while True:
        shapes = tuple(
            Shape(*kind, _place(rng, kind[2]), _place(rng, kind[2]))
            for kind in (first, second)
        )
        down = shapes[1].row - shapes[0].row
        right = shapes[1].column - shapes[0].column
        ahead, aside = (down, right) if RELATIONS[relation][0] else (right, down)
        if ahead > first[2] + second[2] + 1 and abs(aside) <= ASIDE:
            return shapes


def _kind(rng: Random) -> tuple[str, str, int]:
    return rng.choice(list(COLOURS)), rng.choice(list(SHAPES)), rng.choice(RADII)


def _place(rng: Random, radius: int) -> int:
    """Draw a centre so that the shape does not touch an edge."""
    return rng.randint(radius + 1, SIDE - radius - 2)
