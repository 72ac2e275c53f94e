"""Checks of texts that Python calls are given: each mistake is a ``UsageError``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwise.errors import UsageError
from headwise.wording import count_of


def checked_text(text: object) -> str:
    """Return ``text``; raise ``UsageError`` if it is not a str."""
    if not isinstance(text, str):
        raise not_text(text)
    return text


def not_text(given: object) -> UsageError:
    """Return the error for what was given in the place of text."""
    return UsageError(
        f"a text (str) or texts are needed, not {type(given).__name__}; bytes must be "
        "decoded first, and a picture is given by its path"
    )


def checked_texts(given: object) -> list[str]:
    """Return one text, or those of an iterable, as a list."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise not_text(given)
    return [*map(checked_text, given)]


def check_list(name: str, given: object) -> None:
    """Raise unless ``given`` is an iterable of texts; a str has one per letter."""
    not_texts = isinstance(given, str | bytes | Mapping)
    if not_texts or not isinstance(given, Iterable):
        raise UsageError(
            f"{name} must be a list of texts (str), not {type(given).__name__}; for "
            "one text give a list of one"
        )


def checked_sides(
    sources: Iterable[str], targets: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Return sources and their targets as lists, which must have the same length."""
    check_list("sources", sources)
    check_list("targets", targets)
    ours, theirs = ([*map(checked_text, side)] for side in (sources, targets))
    if len(ours) != len(theirs):
        raise UsageError(
            f"each source needs its target: there are {count_of(len(ours), 'source')} "
            f"and {count_of(len(theirs), 'target')}"
        )
    return ours, theirs
