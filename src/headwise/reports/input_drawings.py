"""Drawings of what goes into a model: positional encodings and embeddings."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from headwise.errors import ResourceError, UsageError
from headwise.reports.drawing import Drawing, Line, Rectangle, Text, beside, text_width
from headwise.reports.input_text import NO_POSITIONS
from headwise.reports.inspection_drawings import (
    GRAY,
    MAX_CELLS,
    SIZE,
    Table,
    draw_table,
    framed,
    short,
)

if TYPE_CHECKING:
    from headwise.inspection.embeddings import Embeddings
    from headwise.inspection.positions import Positions

MAP_WIDTH, MAP_HEIGHT = 720.0, 480.0

INKS = {"source": "#1d4e9c", "target": "#b02a20", "neighbour": GRAY}


def draw_positions(found: Positions) -> Drawing:
    """Draw positions as binary numbers, and beside them the encodings.

    Raises ``UsageError`` for a model without, and ``ResourceError`` for more than
    ``MAX_CELLS`` cells.
    """
    if found.kind == "none":
        raise UsageError(NO_POSITIONS)
    tables = [("", found.encodings)]
    if found.decoder_encodings is not None:
        names = "encoder: ", "decoder: "
        of_both = found.encodings, found.decoder_encodings
        tables = list(zip(names, of_both, strict=True))
    if sum(each.numel() for _, each in tables) > MAX_CELLS:
        raise ResourceError(
            f"{len(found.encodings):,} positions of {found.encodings.shape[1]:,} "
            f"channels are more than the {MAX_CELLS:,} cells that are drawn; choose a "
            "shorter text, or JSON"
        )
    rows = [
        f"{position} {' / '.join(short(x, 8) for x in pieces if x)}"
        for position, pieces in enumerate(
            zip_longest(found.source, found.decoder_input, fillvalue="")
        )
    ]
    digits = [str(1 << each) for each in reversed(range(found.binary.shape[1]))]
    drawn = [
        draw_table(Table("binary", rows, digits, found.binary.flip(1).tolist())),
        *(
            draw_table(
                Table(
                    f"{name}{found.kind}, by channel",
                    rows,
                    [str(each) for each in range(values.shape[1])],
                    values.tolist(),
                    float(values.abs().max()),
                    label_rows=False,
                )
            )
            for name, values in tables
        ),
    ]
    return framed(beside(drawn, gap=16, title=f"positional encodings: {found.kind}"))


def draw_embeddings(found: Embeddings) -> Drawing:
    """Draw each token where its embedding is, by two principal components."""
    xs = [each.x for each in found.points]
    ys = [each.y for each in found.points]
    x_share, y_share = (f"{100 * share:.0f}%" for share in found.explained)
    title = f"embeddings by principal components: x {x_share}, y {y_share} of variance"
    shapes: list[Rectangle | Line | Text] = [Text(0, 8, title, SIZE + 1, bold=True)]
    left = 0.0
    for side, ink in INKS.items():
        shapes.append(Text(left, 26, side, SIZE, fill=ink))
        left += text_width(side, SIZE) + 16
    right = left
    seen: set[tuple[str, int, float, float]] = set()
    # Neighbours first, so that the tokens of the text are on top.
    for each in sorted(found.points, key=lambda point: point.side != "neighbour"):
        if (where := (each.side, each.token, each.x, each.y)) in seen:
            continue
        seen.add(where)
        x = MAP_WIDTH * _share(each.x, xs)
        y = 50 + MAP_HEIGHT * (1 - _share(each.y, ys))
        shared = each.side == "target" and ("source", *where[1:]) in seen
        ink, label = INKS[each.side], short(each.piece)
        shapes.append(Rectangle(x - 2, y - 2, 4, 4, ink))
        text_y = y + SIZE if shared else y
        bold = each.side != "neighbour"
        shapes.append(Text(x + 5, text_y, label, SIZE, fill=ink, bold=bold))
        right = max(right, x + 7 + text_width(label, SIZE))
    return framed(Drawing(right, 70 + MAP_HEIGHT, tuple(shapes), title))


def _share(value: float, values: list[float]) -> float:
    """Return where a value is between the least and the largest, from 0 to 1."""
    low, high = min(values), max(values)
    return (value - low) / (high - low) if high > low else 0.5
