"""In what the search of another tool is not the one that a model folder asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from headwise.run_folder.model_folder import ModelFolder

CARRIED = frozenset(
    {
        *("beam", "length_penalty", "alpha", "stopping", "patience", "num_best"),
        *("max_length_factor", "max_length_offset"),
        *("scores", "warnings"),  # which choose no word
    }
)
"""The settings of a search that other tools are told of, or that are spoken of apart.

Any other, also one that is new, is said to be lost where it is not at its default.
"""


def left_behind(decoding: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield each setting that goes nowhere, with its value and the usual one."""
    usual = type(decoding)()
    for name in (each.name for each in fields(decoding)):
        values = getattr(decoding, name), getattr(usual, name)
        if name not in CARRIED and values[0] != values[1]:
            yield name, *values


def notes_on_what_is_left(opened: ModelFolder, *, tool: str) -> list[str]:
    """Say which settings of the search ``tool`` is not told of."""
    return [
        f"{name} = {value!r} is not carried over to {tool}: other translations may win"
        for name, value, _ in left_behind(opened.decoding)
    ]


def exponent(opened: ModelFolder) -> float:
    """Return the α that other tools know: scores are divided by length to the α.

    For the paper's penalty that is the nearest: docs/searches.md has the shares.
    """
    decoding = opened.decoding
    known = {"n^alpha": decoding.alpha, "gnmt": decoding.alpha, "none": 0.0}
    return known.get(decoding.length_penalty, 1.0)


def notes_on_penalty(opened: ModelFolder, *, tool: str, file: str) -> list[str]:
    """Say so where ``tool`` has no such length penalty; a greedy search needs none."""
    penalty = opened.decoding.length_penalty
    if opened.decoding.beam == 1 or penalty in ("n^alpha", "none"):
        return []
    return [
        f"{tool} has no length penalty {penalty!r}: {file} divides scores by the "
        f"length to the power of {exponent(opened)}, and other translations may win"
    ]
