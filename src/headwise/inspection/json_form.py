"""Results of an inspection as JSON: dataclasses become objects, tensors lists."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

from headwise.errors import ResourceError

DIGITS = 9
"""Significant digits of a number: a float32 is the same again when it is read."""

FORMAT = 1

MAX_NUMBERS = 10_000_000
"""Most numbers of tensors in one JSON: about 120 MB of text."""


def to_json(result: Any) -> Any:
    """Return a result as what ``json.dumps`` takes.

    Names of heads and layers are texts, as ``cross.1.3``. A number that JSON does not
    have, such as the -inf of a masked score, is null.
    """
    if is_dataclass(result) and not isinstance(result, type):
        if type(result).__str__ is not object.__str__:  # a name
            return str(result)
        return {
            each.name: to_json(getattr(result, each.name)) for each in fields(result)
        }
    if isinstance(result, Tensor):
        return to_json(result.tolist())
    if isinstance(result, Mapping):
        return {str(key): to_json(value) for key, value in result.items()}
    if isinstance(result, list | tuple):
        return [to_json(each) for each in result]
    if isinstance(result, float):
        return float(f"{result:.{DIGITS}g}") if math.isfinite(result) else None
    return result


def count_numbers(result: Any) -> int:
    """Return how many numbers the tensors of a result have."""
    if isinstance(result, Tensor):
        return result.numel()
    if is_dataclass(result):
        return sum(count_numbers(getattr(result, x.name)) for x in fields(result))
    if isinstance(result, Mapping):
        return sum(map(count_numbers, result.values()))
    if isinstance(result, list | tuple):
        return sum(map(count_numbers, result))
    return 0


def json_text(result: Any, **more: Any) -> str:
    """Return a result as JSON on one line, with its format and any ``more`` entries.

    Raises ``ResourceError`` for more than ``MAX_NUMBERS`` numbers in tensors.
    """
    count = count_numbers(result)
    if count > MAX_NUMBERS:
        raise ResourceError(
            f"{count:,} numbers are more than the {MAX_NUMBERS:,} that are written as "
            "JSON; choose fewer heads, or a shorter text"
        )
    table = {"format": FORMAT, **more, **to_json(result)}
    return json.dumps(table, ensure_ascii=False, allow_nan=False)
