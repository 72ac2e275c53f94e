"""Formatting that several reports share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def evenly_spaced(values: Sequence[T], most: int) -> list[T]:
    """Return at most ``most`` evenly spaced values, with the first and the last."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[round(number * last / (most - 1))] for number in range(most)]


def abbreviated(count: float) -> str:
    """Format a large count, such as 1.2 million."""
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{count / size:.1f} {name}"
    return f"{count:,.0f}"


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines, with columns aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
