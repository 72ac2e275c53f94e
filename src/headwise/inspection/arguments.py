"""Checks of what the inspector is asked: a wrong type is a ``UsageError``."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import SupportsIndex

from headwise.errors import DataError, UsageError

MAX_TOKENS = 2_000
"""Tokens of a text at most: an attention map has a number for each pair of them, so
that 12 heads take 200 MB, and ten times the tokens a hundred times that."""


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


def check_length(tokens: Sized, what: str) -> None:
    """Raise ``DataError`` for a text of more than ``MAX_TOKENS`` tokens."""
    if len(tokens) > MAX_TOKENS:
        raise DataError(
            f"{what} has {len(tokens):,} tokens, and at most {MAX_TOKENS:,} can be "
            "looked at: an attention map has a number for each pair of them; give a "
            "shorter text"
        )


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
