"""Heat maps of cross-attention: target pieces (rows) over source pieces (columns)."""

from __future__ import annotations

from html import escape

from headwise.reports.history import AttentionMap

LEVELS = 12
"""Number of shades, besides none for weight 0."""

CELL = 16
"""Side of a cell, in pixels."""

LETTER = 6.2
"""Width of a letter of a label, in pixels."""

MAX_LABEL_LETTERS = 12
"""Longest label; a longer piece is cut off."""


def thumbnail(picture: AttentionMap) -> str:
    """Return the cells as a small SVG, without labels."""
    rows, columns = len(picture.target), len(picture.source)
    return (
        f'<svg class="heat small" viewBox="0 0 {columns} {rows}" '
        f'preserveAspectRatio="none" aria-hidden="true">{shaded_cells(picture)}</svg>'
    )


def heat_map(picture: AttentionMap, label: str) -> str:
    """Return an SVG of the cells, with target pieces beside and source pieces above."""
    rows, columns = len(picture.target), len(picture.source)
    left = _label_width(picture.target)
    top = _label_width(picture.source)
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
        f"<g>{shaded_cells(picture)}</g></svg>"
    )
    return (
        f'<svg class="heat" role="img" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" '
        f'aria-label="{escape(f"{label}. {describe_map(picture)}")}">'
        f"{beside}{above}{inner}</svg>"
    )


def shaded_cells(picture: AttentionMap) -> str:
    """Return one SVG path per shade, which keeps the file small."""
    cells: dict[int, list[str]] = {}
    for row, weights in enumerate(picture.weights):
        for column, weight in enumerate(weights):
            cells.setdefault(shade(weight), []).append(f"M{column} {row}h1v1h-1z")
    return "".join(
        f'<path class="h{shade}" d="{"".join(cells[shade])}"/>'
        for shade in sorted(cells)
        if shade
    )


def shade(weight: float) -> int:
    """Return the shade of a weight from 0 to 1."""
    return min(LEVELS, max(0, round(weight * LEVELS)))


def describe_map(picture: AttentionMap) -> str:
    """Return in words which source piece each target piece attends to most."""
    parts = []
    for piece, weights in zip(picture.target, picture.weights, strict=True):
        if weights:
            most = max(range(len(weights)), key=weights.__getitem__)
            parts.append(f"{readable(piece)} to {readable(picture.source[most])}")
    return "; ".join(parts)


def table(picture: AttentionMap) -> str:
    """Return the weights as an HTML table."""
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
    """Show SentencePiece's word boundary (U+2581) as a dot, and a line break as ⏎."""
    return piece.replace("▁", "·").replace("\n", "⏎")


def _piece(piece: str) -> str:
    shown = readable(piece)
    if len(shown) > MAX_LABEL_LETTERS:
        shown = f"{shown[: MAX_LABEL_LETTERS - 1]}…"
    return escape(shown)


def _label_width(pieces: list[str]) -> float:
    longest = max((min(len(piece), MAX_LABEL_LETTERS) for piece in pieces), default=1)
    return round(longest * LETTER + 14)
