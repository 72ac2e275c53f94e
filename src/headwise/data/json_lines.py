"""Read the objects of JSON Lines, and name what is wrong with one."""

from __future__ import annotations

import json
import math
import re
import shlex
from typing import Any

from headwise.errors import DataError
from headwise.wording import excerpt


def parse_object(text: str, where: str) -> dict[str, Any]:
    """Return the object of a line; ``where`` names the line in a ``DataError``."""
    try:
        table = json.loads(
            text,
            object_pairs_hook=lambda pairs: _without_duplicates(pairs, where),
            parse_int=_integer,
        )
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: not JSON ({error}): {excerpt(text)}. Each line must be one "
            "object"
        ) from None
    if not isinstance(table, dict):
        raise DataError(
            f"{where}: {excerpt(text)} is not a JSON object; each line must be one, "
            'such as {"source": "...", "target": "..."}'
        )
    return table


def _integer(digits: str) -> float:
    """Parse an integer; one of thousands of digits, which int refuses, as a float."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _without_duplicates(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    """Return the object; raise ``DataError`` for a duplicate key."""
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in table if keys.count(key) > 1)
        raise DataError(
            f"{where}: the key {_json(twice)} occurs {keys.count(twice)} times in one "
            "object; keep one of them"
        )
    return table


def is_number(value: object) -> bool:
    """Return whether a value of JSON is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


NESTED = "translation"
"""Key of an inner object with both texts, as in Hugging Face datasets."""


def text_of(
    table: dict[str, Any], field: str, where: str, *, alone: bool = False
) -> str:
    """Return the text of a key; a finite number is written as text.

    ``alone`` is text without a second side, such as that of a language model. Raises
    ``DataError``, which ``where`` begins, for other values and where there is none.
    """
    nested = table.get(NESTED)
    inner = table
    if field not in table and isinstance(nested, dict):
        inner = nested
    if field not in inner:
        raise DataError(
            f"{where}: the key {_json(field)} is missing; {_keys(inner)}. "
            f"{ALONE if alone else _hint(inner)}"
        )
    text = inner[field]
    if is_number(text):
        return str(text)
    if not isinstance(text, str):
        raise DataError(
            f"{where}: {_json(field)} must be a string or a number, not {_json(text)}"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise DataError(
            f"{where}: {_json(field)} contains {half!a}, a lone surrogate; write the "
            "whole surrogate pair, or the character itself"
        ) from None
    return text


def _keys(table: dict[str, Any]) -> str:
    """Return a phrase with the keys of ``table``."""
    keys = [_json(key) for key in table]
    if not keys:
        return "the object has no key"
    if len(keys) == 1:
        return f"the only key is {keys[0]}"
    return f"the keys are {', '.join(keys)}"


def _json(value: Any) -> str:
    """Return a value as JSON, truncated."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}..."


ALONE = "rename it, or name the key to read by source_field in a recipe"
"""What to do about text alone, such as for a language model."""


def _hint(table: dict[str, Any]) -> str:
    """Say how to name two keys: those of ``table`` if they are two, or of languages."""
    codes = [key for key in table if re.fullmatch("[a-z]{2,3}", key)]
    both = shlex.join((codes if len(codes) > 1 else list(table))[:2])
    example = f", such as --fields {both}" if len(codes) > 1 or len(table) == 2 else ""
    if len(codes) > 1:
        example += f" (for training also --languages {both})"
    return (
        f"--fields SOURCE TARGET names the keys to read{example}; in a recipe, "
        "source_field and target_field do"
    )
