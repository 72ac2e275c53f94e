"""Checks of what the inspector is asked: each mistake is a ``UsageError``."""

from __future__ import annotations

from collections.abc import Iterable

from headwise.errors import UsageError
from headwise.wording import count_of


def check_text(text: object, what: str) -> None:
    """Raise unless this is a str."""
    if not isinstance(text, str):
        raise UsageError(f"{what} must be a text (str), not {type(text).__name__}")


def checked_pairs(
    sources: Iterable[str], targets: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Return sources and their targets; raise unless both are texts, as many each."""
    ours, theirs = _texts(sources, "sources"), _texts(targets, "targets")
    if len(ours) != len(theirs):
        raise UsageError(
            f"each source needs its target: there are {count_of(len(ours), 'source')} "
            f"and {count_of(len(theirs), 'target')}"
        )
    return ours, theirs


def _texts(given: Iterable[str], name: str) -> list[str]:
    """Return a list of texts; a str would be one of letters."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise UsageError(
            f"{name} must be a list of texts (str), not {type(given).__name__}; for "
            "one text give a list of one"
        )
    texts = list(given)
    for each in texts:
        check_text(each, f"each of the {name}")
    return texts
