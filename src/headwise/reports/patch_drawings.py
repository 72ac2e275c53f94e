"""Drawings of numbers over the patches of a picture or video."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from headwise.reports.drawing import (
    BLUE,
    RED,
    Bitmap,
    Drawing,
    Rectangle,
    Shape,
    Text,
    below,
    beside,
    text_width,
)
from headwise.reports.heat_map import readable

if TYPE_CHECKING:
    from headwise.inspection.attention import Attention, AttentionMap
    from headwise.inspection.attribution import Attribution
    from headwise.inspection.patch_grid import PatchGrid

SIZE = 10.0
SIDE = 112.0
"""Longer side of a frame."""

PATCH_SIDES = 3.0, 14.0
"""Smallest and largest side of a patch."""

DARKEST = 0.8
"""Opacity of the largest number, so that the picture below is still seen."""


def draw_over_patches(
    grid: PatchGrid, values: Sequence[float], title: str, most: float | None = None
) -> Drawing:
    """Draw a picture with a number over each patch: blue, or red below 0.

    ``most`` is the number with the darkest colour, by default the largest of these.
    """
    smallest, largest = PATCH_SIDES
    side = max(smallest, min(largest, SIDE / max(grid.rows, grid.columns)))
    most = most or max(map(abs, values), default=0.0) or 1.0
    width, height = side * grid.columns * grid.frames, side * grid.rows
    top = SIZE + 8
    shapes: list[Shape] = [
        Text(0, SIZE / 2, title, SIZE),
        Bitmap(0, top, width, height, grid.image),
    ]
    for patch, value in enumerate(values):
        frame, rest = divmod(patch, grid.rows * grid.columns)
        row, column = divmod(rest, grid.columns)
        opacity = DARKEST * min(1.0, abs(value) / most)
        if opacity >= 0.01:
            color = "#" + "".join(f"{x:02x}" for x in (RED if value < 0 else BLUE))
            x, y = (frame * grid.columns + column) * side, top + row * side
            shapes.append(Rectangle(x, y, side, side, color, opacity=opacity))
    wide = max(width, text_width(title, SIZE))
    return Drawing(wide, top + height + 4, tuple(shapes), title)


def draw_patch_attention(found: Attention) -> Iterator[Drawing]:
    """Draw each attention layer to patches: cross-attention, or of the encoder.

    Of cross-attention there is a picture for each head and target piece; of the encoder
    one for each head: what the [class] token attends to, or all patches on average.
    """
    grid = found.patches
    assert grid is not None, "only pictures are drawn here"
    for name, maps in groupby(found.maps, key=lambda each: each.head.attention):
        if name.kind == "decoder":
            continue
        drawn = [
            beside([*_pictures(found, grid, each)], gap=10, title=str(each.head))
            for each in maps
        ]
        join = below if name.kind == "cross" else beside
        yield join(drawn, gap=10, title=f"attention of {name} over the patches")
    if found.rollout is not None:
        weights = _of_encoder(grid, found.rollout.tolist())
        yield draw_over_patches(grid, weights, "attention rollout")


def count_cells(found: Attention) -> int:
    """Return how many patches are drawn over."""
    grid = found.patches
    assert grid is not None, "only pictures are drawn here"
    patches = grid.rows * grid.columns * grid.frames
    pictures = {"cross": len(found.target), "encoder": 1, "decoder": 0}
    return patches * sum(pictures[each.head.kind] for each in found.maps)


def _pictures(
    found: Attention, grid: PatchGrid, of_head: AttentionMap
) -> Iterator[Drawing]:
    rows = of_head.weights.tolist()
    if of_head.head.kind == "encoder":
        yield draw_over_patches(grid, _of_encoder(grid, rows), str(of_head.head))
        return
    for piece, weights in zip(found.target, rows, strict=True):
        over = weights[grid.first :]
        title = f"{of_head.head} {readable(piece)} {max(over):.2f}"
        yield draw_over_patches(grid, over, title)


def _of_encoder(grid: PatchGrid, rows: Sequence[Sequence[float]]) -> list[float]:
    """Return the weights of [class] on the patches, or the mean over all patches."""
    if grid.first:
        return list(rows[0][grid.first :])
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def draw_patch_attribution(found: Attribution) -> Drawing:
    """Draw both attributions of each part of the output over the patches."""
    grid = found.patches
    assert grid is not None, "only pictures are drawn here"
    lines = []
    for title, values in (
        ("gradient x input", found.gradient_input),
        ("leave one out", found.leave_one_out),
    ):
        most = float(values[:, grid.first :].abs().max())
        drawn = [
            draw_over_patches(
                grid, row[grid.first :], readable(found.target[position]), most
            )
            for position, row in zip(found.positions, values.tolist(), strict=True)
        ]
        label = (
            f"{title} ({found.unit or 'in the unit of the number'}, up to {most:.3g})"
        )
        heading = Drawing(
            text_width(label, SIZE + 1),
            SIZE + 6,
            (Text(0, SIZE / 2, label, SIZE + 1, bold=True),),
            label,
        )
        pictures = beside(drawn, gap=10, title=label)
        lines.append(below([heading, pictures], gap=4, title=label))
    return below(lines, gap=16, title="attribution over the patches")
