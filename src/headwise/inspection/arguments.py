"""Checks of what the inspector is asked: a wrong type is a ``UsageError``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from headwise.errors import DataError, UsageError
from headwise.wording import count_of


def check_text(text: object, what: str) -> None:
    """Raise unless this is a str."""
    if not isinstance(text, str):
        raise UsageError(f"{what} must be a text (str), not {type(text).__name__}")


def require_text(text: str, what: str) -> None:
    """Raise unless this is a str; ``DataError`` if blank, or of several lines."""
    check_text(text, what)
    if "\n" in text.strip():
        raise DataError(f"{what} has several lines; give one")
    if not text.strip():
        raise DataError(f"{what} is blank, so there is nothing to look at; give a text")


def check_index(value: object, what: str) -> None:
    """Raise unless this is an integer, 0 or more."""
    if not isinstance(value, SupportsIndex) or value.__index__() < 0:
        raise UsageError(f"{what} must be an integer, 0 or more, not {value!r}")


def check_indices(values: object, what: str) -> None:
    """Raise unless these are integers, 0 or more."""
    if not isinstance(values, Iterable):
        raise UsageError(f"{what} must be a list of integers, not {values!r}")
    for each in values:
        check_index(each, f"each of the {what}")


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
