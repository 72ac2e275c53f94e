"""Pictures of digits, written by a hand that varies: slant, size, width of the pen.

No test picture has a slant and a width that training shows together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np
from numpy.typing import NDArray

from headwise.sample_data.splits import Sizes, Splits, is_held_out, split

SIDE = 16
"""Height and width of a picture in pixels."""

Points = tuple[tuple[float, float], ...]

STROKES: dict[str, Points] = {
    "0": ((0.5, 0), (0.2, 0.2), (0.1, 0.6), (0.3, 1), (0.7, 1), (0.9, 0.5), (0.5, 0)),
    "1": ((0.25, 0.25), (0.55, 0), (0.55, 1)),
    "2": ((0.1, 0.25), (0.35, 0), (0.7, 0.05), (0.8, 0.35), (0.1, 1), (0.9, 1)),
    "3": (
        *((0.1, 0.05), (0.7, 0), (0.75, 0.3), (0.4, 0.45)),
        *((0.8, 0.6), (0.75, 0.9), (0.4, 1), (0.1, 0.9)),
    ),
    "4": ((0.65, 1), (0.65, 0), (0.1, 0.65), (0.95, 0.65)),
    "5": (
        *((0.8, 0), (0.25, 0), (0.15, 0.45), (0.6, 0.4)),
        *((0.85, 0.65), (0.7, 0.95), (0.15, 0.95)),
    ),
    "6": (
        *((0.7, 0), (0.3, 0.3), (0.15, 0.7), (0.35, 1)),
        *((0.7, 0.95), (0.8, 0.65), (0.5, 0.5), (0.2, 0.65)),
    ),
    "7": ((0.1, 0), (0.9, 0), (0.4, 1)),
    "8": (
        *((0.5, 0.45), (0.2, 0.25), (0.4, 0), (0.7, 0.05), (0.75, 0.25), (0.5, 0.45)),
        *((0.15, 0.75), (0.4, 1), (0.7, 0.95), (0.85, 0.7), (0.5, 0.45)),
    ),
    "9": (
        *((0.3, 1), (0.7, 0.7), (0.85, 0.3), (0.65, 0)),
        *((0.3, 0.05), (0.2, 0.35), (0.5, 0.5), (0.8, 0.35)),
    ),
}
"""Digit -> the corners of its line, right and down from the upper left one, in heights
of the digit."""

SLANTS = (-0.3, -0.15, 0.0, 0.15, 0.3)
"""How far the upper end is to the right of the lower one, in heights."""

WIDTHS = (0.6, 0.9, 1.2)
"""Half of the width of the pen, in pixels."""

SIZES = Sizes(4_000, 200, 400)
ONE_IN = 5
"""One in so many pairs of slant and width is for the test."""


@dataclass(frozen=True, slots=True)
class Digit:
    """How a digit is written, from which its pixels follow."""

    label: str
    slant: float
    width: float
    height: float
    """In pixels."""

    row: float
    column: float
    """Of the middle of the digit, in pixels."""

    hand: int
    """Seed of what differs each time a hand writes the same digit."""

    def pixels(self) -> NDArray[np.uint8]:
        """Draw the picture [H W]: light on black."""
        rng = np.random.default_rng(self.hand)
        points = np.array(STROKES[self.label]) - 0.5  # [P 2]
        points += rng.normal(0.0, 0.04, points.shape)
        points[:, 0] = 0.7 * points[:, 0] - self.slant * points[:, 1]
        points = self.height * points + (self.column, self.row)
        rows, columns = np.mgrid[:SIDE, :SIDE] + 0.5
        places = np.stack([columns, rows], axis=-1)  # [H W 2]
        distance = np.min(
            [_distance(places, start, end) for start, end in pairwise(points)], axis=0
        )
        light = np.clip(self.width + 0.5 - distance, 0.0, 1.0)
        noisy = 230 * light + rng.normal(0.0, 12.0, light.shape)
        return np.asarray(np.clip(noisy, 0, 255), dtype=np.uint8)


def _distance(
    places: NDArray[np.float64], start: NDArray[np.float64], end: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how far each place [H W 2] is from a straight line: [H W]."""
    along = end - start
    share = ((places - start) @ along) / max(float(along @ along), 1e-9)
    nearest = start + np.clip(share, 0.0, 1.0)[..., None] * along
    return np.asarray(np.linalg.norm(places - nearest, axis=-1))


def digits(sizes: Sizes = SIZES, *, seed: int = 1) -> Splits[Digit]:
    """Generate pictures of digits, as many of each."""
    return split(
        _digit, key=lambda digit: digit, for_test=_for_test, sizes=sizes, seed=seed
    )


def _digit(rng: Random, number: int) -> list[Digit]:
    return [
        Digit(
            list(STROKES)[number % len(STROKES)],
            rng.choice(SLANTS),
            rng.choice(WIDTHS),
            rng.uniform(9.0, 12.0),
            rng.uniform(7.0, 9.0),
            rng.uniform(7.0, 9.0),
            rng.randrange(2**32),
        )
    ]


def _for_test(digit: Digit) -> bool:
    return is_held_out(digit.slant, digit.width, one_in=ONE_IN)
