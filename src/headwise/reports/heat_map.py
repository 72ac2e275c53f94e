"""Pictures of attention: what each piece of the target takes from the source."""

from __future__ import annotations

from html import escape

from headwise.reports.history import Picture

LEVELS = 12
"""Shades that a weight is shown in, besides none at all."""

CELL = 16
"""Side of a square, in pixels."""

LETTER = 6.2
"""Pixels that a letter of a label takes."""

MOST_LETTERS = 12
"""Letters of a label; the rest of a piece is left out."""


def thumbnail(picture: Picture) -> str:
    """Draw the squares alone."""
    rows, columns = len(picture.target), len(picture.source)
    return (
        f'<svg class="heat small" viewBox="0 0 {columns} {rows}" '
        f'preserveAspectRatio="none" aria-hidden="true">{squares(picture)}</svg>'
    )


def heat_map(picture: Picture, label: str) -> str:
    """Draw the squares with the pieces beside and above them."""
    rows, columns = len(picture.target), len(picture.source)
    left = _room(picture.target)
    top = _room(picture.source)
    width, height = left + columns * CELL + 2, top + rows * CELL + 2
    beside = "".join(
        f'<text x="{left - 6}" y="{top + (row + 0.5) * CELL + 4:.1f}" '
        f'class="row">{_piece(piece)}</text>'
        for row, piece in enumerate(picture.target)
    )
    above = "".join(
        f'<text transform="translate({left + (column + 0.5) * CELL + 4:.1f} '
        f'{top - 6}) rotate(-90)">{_piece(piece)}</text>'
        for column, piece in enumerate(picture.source)
    )
    inner = (
        f'<svg class="squares" x="{left}" y="{top}" width="{columns * CELL}" '
        f'height="{rows * CELL}" viewBox="0 0 {columns} {rows}">'
        f'<rect class="ground" width="{columns}" height="{rows}"/>'
        f"<g>{squares(picture)}</g></svg>"
    )
    return (
        f'<svg class="heat" role="img" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" '
        f'aria-label="{escape(f"{label}. {told(picture)}")}">'
        f"{beside}{above}{inner}</svg>"
    )


def squares(picture: Picture) -> str:
    """Draw one path for each shade, so that a picture stays small."""
    cells: dict[int, list[str]] = {}
    for row, weights in enumerate(picture.weights):
        for column, weight in enumerate(weights):
            cells.setdefault(level(weight), []).append(f"M{column} {row}h1v1h-1z")
    return "".join(
        f'<path class="h{shade}" d="{"".join(cells[shade])}"/>'
        for shade in sorted(cells)
        if shade
    )


def level(weight: float) -> int:
    """Return the shade of a weight from 0 to 1."""
    return min(LEVELS, max(0, round(weight * LEVELS)))


def told(picture: Picture) -> str:
    """Say in words what each piece looks at most."""
    parts = []
    for piece, weights in zip(picture.target, picture.weights, strict=True):
        if weights:
            most = max(range(len(weights)), key=weights.__getitem__)
            looked_at = picture.source[most]
            parts.append(f"{readable(piece)} to {readable(looked_at)}")
    return "; ".join(parts)


def table(picture: Picture) -> str:
    """Write the weights as a table."""
    head = "".join(
        f"<th scope=col>{escape(readable(piece))}</th>" for piece in picture.source
    )
    rows = "".join(
        f"<tr><th scope=row>{escape(readable(piece))}</th>"
        + "".join(f"<td>{weight:.2f}</td>" for weight in weights)
        + "</tr>"
        for piece, weights in zip(picture.target, picture.weights, strict=True)
    )
    return (
        f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def readable(piece: str) -> str:
    """Write SentencePiece's mark of a new word as a dot."""
    return piece.replace("▁", "·")


def _piece(piece: str) -> str:
    shown = readable(piece)
    if len(shown) > MOST_LETTERS:
        shown = f"{shown[: MOST_LETTERS - 1]}…"
    return escape(shown)


def _room(pieces: list[str]) -> float:
    longest = max((min(len(piece), MOST_LETTERS) for piece in pieces), default=1)
    return round(longest * LETTER + 14)
