"""Edit a model card: metadata, title and notes.

What training wrote, such as scores, stays as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import SettingsError
from headwise.recipe.checks import card_problems
from headwise.run_folder.card_fields import DASHES, UNKNOWN_LICENSE, card_parts
from headwise.run_folder.card_metadata import quoted

NOTES = "\n## Notes\n"
"""Heading of the last section of a card, which belongs to the user."""

MAX_TITLE = 200

COMMON_LICENSES = """
afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bsd-2-clause bsd-3-clause bsl-1.0 cc0-1.0
cc-by-2.0 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0
cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0
cc-by-nc-sa-4.0 ecl-2.0 epl-2.0 eupl-1.2 gpl-2.0 gpl-3.0 isc lgpl-2.1 lgpl-3.0 mit
mpl-2.0 ms-pl odbl openrail osl-3.0 pddl unlicense wtfpl zlib other
"""
"""Licences that model hubs list: SPDX identifiers in lower case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardChanges:
    """Changes to a card; None or empty: no change."""

    languages: tuple[str, ...] = ()
    license: str | None = None
    title: str | None = None
    notes: str | None = None
    """Markdown for the last section; an empty text removes the section."""

    def __post_init__(self) -> None:
        problems = card_problems(self.languages, self.license)
        title = self.title
        if title is not None and not (title.strip() and title.isprintable()):
            problems.append(f"title must be one line of text, not {title!r}")
        if title is not None and len(title) > MAX_TITLE:
            problems.append(
                f"title must have at most {MAX_TITLE} characters, not {len(title)}"
            )
        if problems:
            raise SettingsError(problems)


def edit_card(card: str, changes: CardChanges) -> str:
    """Return ``card`` with ``changes`` applied."""
    head, body = card_parts(card)
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


def missing_fields(card: str, task: str) -> list[str]:
    """Return which of license and languages the card of a model of ``task`` lacks."""
    head, _ = card_parts(card)
    missing = []
    if f"license: {quoted(UNKNOWN_LICENSE)}" in head or not _has(head, "license"):
        missing.append("license")
    if not _has(head, "language") and task not in WITHOUT_TEXT:
        missing.append("languages")
    return missing


WITHOUT_TEXT = ("picture_classification",)
"""Tasks whose models have no language."""


def edit_command(folder: Path, missing: Sequence[str], task: str) -> str:
    """Return an example command that adds the missing fields.

    A model of texts of one language names it twice.
    """
    languages = "en de" if task == "translation" else "en en"
    options = {
        "license": "--license cc-by-4.0",
        "languages": f"--languages {languages}",
    }
    arguments = " ".join(options[name] for name in missing)
    return f"headwise edit {shlex.quote(str(folder))} {arguments}"


def _has(head: Sequence[str], name: str) -> bool:
    return any(line.startswith(f"{name}:") for line in head)


def _replaced(head: Sequence[str], name: str, value: Sequence[str]) -> list[str]:
    """Replace an entry and its list by ``value``; insert a new entry at the top."""
    kept: list[str] = []
    index, inside = 0, False
    for line in head:
        if line.startswith(f"{name}:"):
            index, inside = len(kept), True
        elif not (inside and line.startswith("- ")):
            kept.append(line)
            inside = False
    return [*kept[:index], *value, *kept[index:]]
