"""Decoding settings that an export target cannot reproduce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from headwise.run_folder.model_folder import ModelFolder

EXPORTED = frozenset(
    {
        *("beam", "length_penalty", "alpha", "stopping", "patience", "num_best"),
        *("max_length_factor", "max_length_offset"),
        *("scores", "warnings"),  # without effect on the translation
        *("split_sentences", "recase", "copy_numbers", "copy_names"),
    }
)
"""Decoding settings that are exported, or have a note of their own.

Any other setting gets a note if it is not at its default.
"""


def ignored_settings(decoding: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield each setting that is not exported: name, value and default."""
    defaults = type(decoding)()
    for name in (each.name for each in fields(decoding)):
        values = getattr(decoding, name), getattr(defaults, name)
        if name not in EXPORTED and values[0] != values[1]:
            yield name, *values


def notes_on_ignored_settings(opened: ModelFolder, *, tool: str) -> list[str]:
    """Return a note for each setting that is not exported."""
    notes = [
        f"{name} = {value!r} is not exported to {tool}; translations may differ"
        for name, value, _ in ignored_settings(opened.decoding)
    ]
    if opened.decoding.split_sentences:
        notes.append(
            "split_sentences is not exported: the model was trained on single "
            f"sentences, so give {tool} one in each line"
        )
    if opened.decoding.recase:
        notes.append(
            f"recase is not exported: give {tool} texts in capitals in lower case"
        )
    if opened.decoding.copy_numbers:
        notes.append(
            f"copy_numbers is not exported to {tool}, which has no placeholders: "
            "numbers are translated as the model spells them"
        )
    if opened.decoding.copy_names:
        notes.append(
            f"copy_names is not exported to {tool}, which has no placeholders: "
            "unknown names are translated as the model spells them"
        )
    return notes


def length_penalty_exponent(opened: ModelFolder) -> float:
    """Return the α of other tools, which divide scores by length to the power of α.

    For the paper's penalty this is an approximation: see docs/searches.md.
    """
    decoding = opened.decoding
    known = {"n^alpha": decoding.alpha, "gnmt": decoding.alpha, "none": 0.0}
    return known.get(decoding.length_penalty, 1.0)


def notes_on_penalty(opened: ModelFolder, *, tool: str, file: str) -> list[str]:
    """Return a note if ``tool`` lacks the length penalty, unless search is greedy."""
    penalty = opened.decoding.length_penalty
    if opened.decoding.beam == 1 or penalty in ("n^alpha", "none"):
        return []
    return [
        f"{tool} has no length penalty {penalty!r}: {file} divides scores by the "
        f"length to the power of {length_penalty_exponent(opened)}, which may choose "
        "another translation"
    ]
