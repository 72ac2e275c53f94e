"""Small things that several pages say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def spread(values: Sequence[T], most: int) -> list[T]:
    """Take at most ``most`` values, evenly spread, the first and the last always."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[round(number * last / (most - 1))] for number in range(most)]


def short(count: float) -> str:
    """Write a large count in short."""
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{count / size:.1f} {name}"
    return f"{count:,.0f}"


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Write rows below each other, each column as wide as it must be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
