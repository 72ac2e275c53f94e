"""Segments of the SGML and XML files in which evaluation campaigns publish texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from headwise.errors import DataError

_SEGMENT = re.compile(r"<seg [^>]*>\s*(.*?)\s*</seg>")

_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}
_ENTITY = re.compile("|".join(_ENTITIES))


def read_segments(path: Path) -> list[str]:
    """Return the text of each segment of ``path``, one a line, with its entities.

    Raises ``DataError`` if there is none.
    """
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    found = [match[1] for line in lines for match in _SEGMENT.finditer(line)]
    if not found:
        raise DataError(f"{path.name} has no segments (<seg id=...>...</seg>)")
    return found


def without_entities(text: str) -> str:
    """Return ``text`` with the five entities of XML replaced, each once."""
    return _ENTITY.sub(lambda match: _ENTITIES[match[0]], text)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write one text a line."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in lines)
