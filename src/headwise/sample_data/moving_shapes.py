"""Videos of one moving shape; the class is how it moves.

No single frame says anything of the class. The picture wraps around at its edges, and a
shape may begin anywhere, so that frame after frame every place is as likely as any
other, whatever the movement. How a shape looks is drawn independently of it.

Letters used for sizes: T frames, H height, W width.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from headwise.sample_data.splits import Sizes, Splits, is_held_out, split

FRAMES, SIDE = 8, 16
"""Frames of a video, and its height and width in pixels."""

SPEEDS = (1, 2)
"""Pixels between a frame and the next one."""

STEPS = {
    "right": ((0, 1),),
    "left": ((0, -1),),
    "down": ((1, 0),),
    "up": ((-1, 0),),
    "clockwise": ((0, 1), (0, 1), (1, 0), (1, 0), (0, -1), (0, -1), (-1, 0), (-1, 0)),
    "anticlockwise": (
        *((0, -1), (0, -1), (1, 0), (1, 0)),
        *((0, 1), (0, 1), (-1, 0), (-1, 0)),
    ),
}
"""Class -> down and right from frame to frame, over and over; the last two go round a
square."""

SHAPES = {
    "square": ("####", "####", "####", "####"),
    "frame": ("#####", "#...#", "#...#", "#...#", "#####"),
    "cross": ("..#..", "..#..", "#####", "..#..", "..#.."),
    "diamond": ("..#..", ".###.", "#####", ".###.", "..#.."),
    "x": ("#...#", ".#.#.", "..#..", ".#.#.", "#...#"),
    "ring": (".###.", "#...#", "#...#", "#...#", ".###."),
}
"""Every shape is its own mirror image, left to right and upside down."""

BRIGHTNESS = (95, 135, 175, 215, 255)

SIZES = Sizes(12_000, 300, 300)
ONE_IN = 6
"""One in so many pairs of shape and brightness is for the test."""


@dataclass(frozen=True, slots=True)
class Video:
    """How a shape looks and moves, from which its frames follow."""

    label: str
    shape: str
    brightness: int
    speed: int
    phase: int
    """Which of the steps of the movement is the first."""

    row: int
    column: int

    def frames(self) -> NDArray[np.uint8]:
        """Draw the frames [T H W]: light on black."""
        rows, columns = np.array(
            [
                (row, column)
                for row, line in enumerate(SHAPES[self.shape])
                for column, mark in enumerate(line)
                if mark == "#"
            ]
        ).T
        steps = STEPS[self.label]
        down, right = self.row, self.column
        video = np.zeros((FRAMES, SIDE, SIDE), dtype=np.uint8)
        for time in range(FRAMES):
            video[time, (rows + down) % SIDE, (columns + right) % SIDE] = (
                self.brightness
            )
            step = steps[(self.phase + time) % len(steps)]
            down += self.speed * step[0]
            right += self.speed * step[1]
        return video


def videos(sizes: Sizes = SIZES, *, seed: int = 1) -> Splits[Video]:
    """Generate videos, as many of each class."""
    return split(
        _video, key=lambda video: video, for_test=_for_test, sizes=sizes, seed=seed
    )


def _video(rng: Random, number: int) -> list[Video]:
    label = list(STEPS)[number % len(STEPS)]
    return [
        Video(
            label,
            rng.choice(list(SHAPES)),
            rng.choice(BRIGHTNESS),
            rng.choice(SPEEDS),
            rng.randrange(len(STEPS[label])),
            rng.randrange(SIDE),
            rng.randrange(SIDE),
        )
    ]


def _for_test(video: Video) -> bool:
    return is_held_out(video.shape, video.brightness, one_in=ONE_IN)
