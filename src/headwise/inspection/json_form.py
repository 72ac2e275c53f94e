"""Results of an inspection as JSON: dataclasses become objects, tensors lists."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

DIGITS = 9
"""Significant digits of a number: a float32 is the same again when it is read."""

FORMAT = 1


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


def json_text(result: Any, **more: Any) -> str:
    """Return a result as JSON on one line, with its form and any ``more`` entries."""
    table = {"format": FORMAT, **more, **to_json(result)}
    return json.dumps(table, ensure_ascii=False, allow_nan=False)
