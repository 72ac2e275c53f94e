"""A model card that is there already, changed: its head, its title, its notes.

What a run wrote into it, such as scores, stays as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import SettingsError
from headwise.recipe import card_problems
from headwise.run_folder.card_head import UNKNOWN_LICENSE, quoted

DASHES = "---"
NOTES = "\n## Notes\n"
"""The last section of a card, of which all is its maker's."""

LONGEST_TITLE = 200

COMMON_LICENSES = """
afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bsd-2-clause bsd-3-clause bsl-1.0 cc0-1.0
cc-by-2.0 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0
cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0
cc-by-nc-sa-4.0 ecl-2.0 epl-2.0 eupl-1.2 gpl-2.0 gpl-3.0 isc lgpl-2.1 lgpl-3.0 mit
mpl-2.0 ms-pl odbl openrail osl-3.0 pddl unlicense wtfpl zlib other
"""
"""What model hubs list, in their spelling: SPDX identifiers in small letters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardChanges:
    """What is to be changed in a card; what is not given stays."""

    languages: tuple[str, ...] = ()
    license: str | None = None
    title: str | None = None
    notes: str | None = None
    """Text in Markdown for a last section; an empty one takes that section away."""

    def __post_init__(self) -> None:
        problems = card_problems(self.languages, self.license)
        title = self.title
        if title is not None and not (title.strip() and title.isprintable()):
            problems.append(f"title must be one line of text, not {title!r}")
        if title is not None and len(title) > LONGEST_TITLE:
            problems.append(
                f"title must have at most {LONGEST_TITLE} characters, not {len(title)}"
            )
        if problems:
            raise SettingsError(problems)


def edited(card: str, changes: CardChanges) -> str:
    """Return ``card`` with ``changes`` made in it."""
    head, body = _parts(card)
    if changes.languages:
        names = dict.fromkeys(changes.languages)
        value = ["language:", *(f"- {quoted(each)}" for each in names)]
        head = _replaced(head, "language", value)
    if changes.license is not None:
        value = [f"license: {quoted(changes.license.lower())}"]
        head = _replaced(head, "license", value)
    if changes.title is not None:
        title = changes.title.strip()
        head = [
            f"- name: {quoted(title)}" if line.startswith("- name: ") else line
            for line in head
        ]
        body = re.sub(r"(?m)^# .*$", lambda _: f"# {title}", body, count=1)
    if changes.notes is not None:
        body = body.partition(NOTES)[0]
        if changes.notes.strip():
            body = f"{body.rstrip()}\n{NOTES}\n{changes.notes.strip()}\n"
    return "\n".join([DASHES, *head, DASHES, body])


def unknown_in(card: str) -> list[str]:
    """Name what a card does not say and only its maker knows, as settings are named."""
    head, _ = _parts(card)
    unknown = []
    if f"license: {quoted(UNKNOWN_LICENSE)}" in head or not _has(head, "license"):
        unknown.append("license")
    if not _has(head, "language"):
        unknown.append("languages")
    return unknown


def edit_command(folder: Path, unknown: Sequence[str]) -> str:
    """Return a command that fills in what a card does not say, by an example."""
    options = {"license": "--license cc-by-4.0", "languages": "--languages en de"}
    said = " ".join(options[name] for name in unknown)
    return f"headwise edit {shlex.quote(str(folder))} {said}"


def _parts(card: str) -> tuple[list[str], str]:
    """Return the lines of the head, the least of one if there is none, and the rest."""
    first, *lines = card.split("\n")
    if first == DASHES and DASHES in lines:
        end = lines.index(DASHES)
        return lines[:end], "\n".join(lines[end + 1 :])
    return ["library_name: headwise", "pipeline_tag: translation"], card


def _has(head: Sequence[str], name: str) -> bool:
    return any(line.startswith(f"{name}:") for line in head)


def _replaced(head: Sequence[str], name: str, value: Sequence[str]) -> list[str]:
    """Put ``value`` in the place of an entry and of its list; a new one comes first."""
    kept: list[str] = []
    place, inside = 0, False
    for line in head:
        if line.startswith(f"{name}:"):
            place, inside = len(kept), True
        elif not (inside and line.startswith("- ")):
            kept.append(line)
            inside = False
    return [*kept[:place], *value, *kept[place:]]
