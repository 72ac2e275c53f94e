"""In what the search of another tool is not the one that a model folder asks for."""

from __future__ import annotations

from headwise.run_folder.model_folder import ModelFolder


def exponent(opened: ModelFolder) -> float:
    """Return the α that other tools know: scores are divided by length to the α."""
    decoding = opened.decoding
    known = {"n^alpha": decoding.alpha, "none": 0.0}
    return known.get(decoding.length_penalty, 1.0)


def notes_on_penalty(opened: ModelFolder, *, tool: str, file: str) -> list[str]:
    """Say so where ``tool`` has no such length penalty; a greedy search needs none."""
    penalty = opened.decoding.length_penalty
    if opened.decoding.beam == 1 or penalty in ("n^alpha", "none"):
        return []
    return [
        f"{tool} has no length penalty {penalty!r}: {file} divides scores by the "
        "length, and other translations may win"
    ]
