"""What a page asks for, as JSON, read into a request of a view."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.inspection.interventions import (
    Intervention,
    ReplaceRow,
    parse_no_residual,
    parse_off,
)
from headwise.inspection.places import AttentionKind, Head, parse_head
from headwise.inspection.views import Request
from headwise.settings import read
from headwise.wording import without_surrogates

MAX_COUNT = 1000
"""Most alternatives of a token."""

TEXTS = ("text", "target", "donor", "other", "prefix")
REQUEST_FIELDS = (*TEXTS, "heads", "position", "count", "changes", "search")
ATTENTION_FIELDS = ("kinds", "norms", "max_side", "rollout")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionRequest:
    """What is asked of attention besides the request."""

    kinds: tuple[AttentionKind, ...] = ()
    """Heads of these kinds alone; none: of all."""

    norms: bool = False
    rollout: bool = False
    max_side: int | None = None
    """Most rows and columns of a map: it is max-pooled; None: as it is."""


def parse_body(body: bytes) -> Mapping[str, Any]:
    """Return the table that a body holds; raise ``UsageError`` for anything else."""
    try:
        table = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON") from None
    if not isinstance(table, dict):
        raise UsageError("the body must be a JSON object, with a text")
    return table


def read_request(table: Mapping[str, Any], *more: str) -> Request:
    """Return the request of a table, in which every entry but text may be missing.

    ``more`` are other entries that it may have. Raises ``UsageError`` that names what
    cannot be read.
    """
    known = (*REQUEST_FIELDS, *more)
    if unknown := sorted(set(table) - set(known)):
        raise UsageError(
            f"{unknown[0]!r} is not an entry of a request; these are: "
            f"{', '.join(known)}"
        )
    texts = {name: _text(table, name) for name in TEXTS}
    count = table.get("count", 5)
    if type(count) is not int or not 1 <= count <= MAX_COUNT:
        raise UsageError(f"count must be from 1 to {MAX_COUNT:,}, not {count!r}")
    position = table.get("position")
    if position is not None and (type(position) is not int or position < 0):
        raise UsageError(f"position must be 0 or more, not {position!r}")
    search = table.get("search") or {}
    if not isinstance(search, dict):
        raise UsageError("search must be an object of decoding settings")
    read(DecodingSettings, search)
    return Request(
        text=texts["text"] or "",
        target=texts["target"],
        donor=texts["donor"],
        other=texts["other"],
        prefix=texts["prefix"] or "",
        heads=[_head(each) for each in _list(table, "heads")],
        position=position,
        count=count,
        changes=[_change(each) for each in _list(table, "changes")],
        search=search,
    )


def read_attention_request(table: Mapping[str, Any]) -> AttentionRequest:
    """Return what a table asks of attention; raise ``UsageError`` as above."""
    kinds = _list(table, "kinds")
    if unknown := [each for each in kinds if each not in get_args(AttentionKind)]:
        raise UsageError(
            f"kinds are {', '.join(get_args(AttentionKind))}, not {unknown[0]!r}"
        )
    side = table.get("max_side")
    if side is not None and (type(side) is not int or side < 1):
        raise UsageError(f"max_side must be 1 or more, not {side!r}")
    for name in ("norms", "rollout"):
        if not isinstance(table.get(name, False), bool):
            raise UsageError(f"{name} must be true or false, not {table[name]!r}")
    return AttentionRequest(
        kinds=tuple(kinds),
        norms=table.get("norms", False),
        rollout=table.get("rollout", False),
        max_side=side,
    )


def _text(table: Mapping[str, Any], name: str) -> str | None:
    value = table.get(name)
    if value is None and name != "text":
        return None
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a text, not {value!r}")
    if value != without_surrogates(value):
        raise UsageError(f"{name} has half of a surrogate pair, which is no text")
    return value


def _list(table: Mapping[str, Any], name: str) -> list[Any]:
    value = table.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise UsageError(f"{name} must be a list, not {value!r}")
    return value


def _head(name: object) -> Head:
    return parse_head(_name(name, "the name of a head"))


def _change(table: object) -> Intervention:
    """Read {"off": name}, {"no_residual": name} or {"row": {...}}."""
    if isinstance(table, dict) and len(table) == 1:
        (kind, value) = next(iter(table.items()))
        if kind == "off":
            return parse_off(_name(value, "what is off"))
        if kind == "no_residual":
            return parse_no_residual(_name(value, "no_residual"))
        if kind == "row":
            return _row(value)
    raise UsageError(
        'a change is {"off": NAME}, {"no_residual": NAME} or {"row": {"head": NAME, '
        f'"position": N, "weights": [...]}}}}, not {table!r}'
    )


def _row(table: object) -> ReplaceRow:
    if not isinstance(table, dict) or set(table) != {"head", "position", "weights"}:
        raise UsageError(
            f"a row has head, position and weights, and nothing else; not {table!r}"
        )
    position, weights = table["position"], table["weights"]
    if type(position) is not int:
        raise UsageError(f"the position of a row must be a number, not {position!r}")
    if not isinstance(weights, list) or any(
        type(each) not in (int, float) for each in weights
    ):
        raise UsageError("the weights of a row must be a list of numbers")
    return ReplaceRow(_head(table["head"]), position, tuple(map(float, weights)))


def _name(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{what} must be a text such as cross.1.3, not {value!r}")
    return value
