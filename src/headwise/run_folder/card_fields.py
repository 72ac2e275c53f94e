"""What a model card says in its metadata; reading it needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DASHES = "---"
"""The lines before and after the metadata."""

UNKNOWN_LICENSE = "unknown"
"""Licence in the metadata if none is given."""


@dataclass(frozen=True, slots=True)
class CardFields:
    """What a card says of a model in its metadata and its title."""

    languages: tuple[str, ...]
    license: str | None
    title: str


def card_fields(card: str) -> CardFields:
    """Read languages, licence and title of a card."""
    head, body = card_parts(card)
    license = next(iter(_values(head, "license")), None)
    title = next((line for line in body.split("\n") if line.startswith("# ")), "")
    return CardFields(
        languages=tuple(_values(head, "language")),
        license=None if license == UNKNOWN_LICENSE else license,
        title=title.removeprefix("# "),
    )


def card_parts(card: str) -> tuple[list[str], str]:
    """Return the lines of the metadata (minimal if there are none), and the rest."""
    first, *lines = card.split("\n")
    if first == DASHES and DASHES in lines:
        end = lines.index(DASHES)
        return lines[:end], "\n".join(lines[end + 1 :])
    return ["library_name: headwise", "pipeline_tag: translation"], card


def _values(head: Sequence[str], name: str) -> list[str]:
    """Return the value of an entry, or those of its list."""
    found: list[str] = []
    inside = False
    for line in head:
        if line.startswith(f"{name}:"):
            inside = True
            found += filter(None, [line.partition(":")[2].strip()])
        elif inside and line.startswith("- "):
            found.append(line.removeprefix("- ").strip())
        else:
            inside = False
    return [each.strip('"') for each in found]
