"""Settings: typed dataclasses from TOML and back, with errors for unknown names.

A settings dataclass has each default once, documents each field by the string below it,
and checks itself in ``__post_init__`` by raising one ``SettingsError`` with all
problems. Supported types: ``bool``, ``int``, ``float``, ``str``, ``Literal``, another
settings dataclass, ``tuple[X, ...]`` of any of these, and each of them ``| None``.

TOML has no null. ``None`` is an absent line if it is the default, and the text
``"none"`` elsewhere; so an optional text cannot be the word none itself.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from headwise.errors import SettingsError

T = TypeVar("T")

ABSENT = "none"
"""Text for an optional setting without value."""

MAX_BITS = 1000
"""Size of an integer that can be printed and compared with numbers; Python refuses both
for larger ones. TOML has no bound."""

KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string in quotes",
}


@dataclass(frozen=True, slots=True)
class Renamed:
    """What a setting that had another name is called now; ``kind.RENAMED`` has them."""

    name: str

    values: Mapping[str, str]
    """Value under the old name -> value now; others stay."""


_type_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)
"""The resolved annotations of a class; to resolve them takes half a millisecond."""


def with_new_names(
    kind: type[Any], table: Mapping[str, Any], where: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """Return ``table`` with renamed settings by their new names, and what to say.

    If both names are set, the later one wins, as on a command line.
    """
    if not isinstance(table, Mapping):
        return table, []  # what it should be is for ``read`` to say
    renamed: Mapping[str, Renamed] = getattr(kind, "RENAMED", {})
    hints = _type_hints(kind)
    result, messages = {}, []
    for name, value in table.items():
        if name in renamed:
            new = renamed[name]
            old, name, before = name, new.name, value
            if isinstance(value, str):
                value = new.values.get(value, value)
            messages.append(
                f"{where}{old} = {before!r} is now called {where}{name} = {value!r}"
            )
        elif is_dataclass(hints.get(name)) and isinstance(value, Mapping):
            value, inner = with_new_names(hints[name], value, f"{where}{name}.")
            messages += inner
        result[name] = value
    return result, messages


def read(kind: type[T], table: Mapping[str, Any], where: str = "") -> T:
    """Build the dataclass ``kind`` from ``table``, recursively.

    ``where`` is the path to ``table`` in the file, such as ``"training."``, and
    starts every problem, so that a reader can find the line to mend. Settings are also
    known by the names that they once had.
    """
    table, _ = with_new_names(kind, table, where)
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    hints = _type_hints(kind)
    problems = [
        f"{where}{name} is not a setting; {_hint(name, where, hints)}"
        for name in table
        if name not in known
    ]
    values: dict[str, Any] = {}
    for name, field in known.items():
        path = f"{where}{name}"
        if name in table:
            try:
                values[name] = _convert(hints[name], table[name], path)
            except SettingsError as error:
                problems += error.problems
        elif field.default is MISSING and field.default_factory is MISSING:
            problems.append(f"{path} is missing and has no default")
    if problems:
        raise SettingsError(problems)
    try:
        return kind(**values)
    except SettingsError as error:
        raise SettingsError([f"{where}{each}" for each in error.problems]) from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file; raise ``SettingsError`` if it is invalid."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        reason = error.strerror or error
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8; save it as UTF-8"
    except (ValueError, RecursionError) as error:
        raise SettingsError([f"{path} is not valid TOML: {error}"]) from None
    raise SettingsError([f"{path} cannot be read: {reason}"])


def with_overrides(
    table: Mapping[str, Any], assignments: Iterable[str], *, option: str = "--set"
) -> dict[str, Any]:
    """Return ``table`` with assignments such as ``training.steps=60`` applied.

    The right side is a TOML value, or else plain text, so that ``text.tokenizer=words``
    needs no quotes.
    """
    result = _copied(table)
    problems = []
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        names = [name.strip() for name in path.split(".")]
        if not equals or not all(names):
            problems.append(
                f"{option} takes NAME=VALUE, such as training.steps=60, not "
                f"{assignment!r}"
            )
            continue
        inner = result
        for name in names[:-1]:
            deeper = inner.setdefault(name, {})
            if not isinstance(deeper, dict):
                problems.append(
                    f"{option} {assignment}: {name} is {deeper!r}, not a table; use "
                    f"{option} {name}=VALUE"
                )
                break
            inner = deeper
        else:
            inner[names[-1]] = _parsed(text.strip())
    if problems:
        raise SettingsError(problems)
    return result


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``below`` updated by ``above``, recursively."""
    result = dict(below)
    for name, value in above.items():
        under = result.get(name)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            result[name] = merged(under, value)
        else:
            result[name] = value
    return result


def changed_by(settings: T, table: Mapping[str, Any]) -> T:
    """Return settings with the values of ``table`` in place of their own.

    Raises ``SettingsError`` with all problems.
    """
    return read(type(settings), merged(as_table(settings), table))


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield each path, such as ``data.corpora.0.weight``, whose values differ.

    Both values come with it; None is what a table does not have.
    """
    before, after = dict(_flat(old)), dict(_flat(new))
    for path in {**before, **after}:
        if before.get(path) != after.get(path):
            yield path, before.get(path), after.get(path)


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        elif isinstance(value, list) and any(isinstance(v, Mapping) for v in value):
            numbered = {str(number): each for number, each in enumerate(value)}
            yield from _flat(numbered, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def as_table(settings: Any) -> dict[str, Any]:
    """Return a settings dataclass as nested dicts, the inverse of ``read``."""
    return {
        field.name: _plain(value)
        for field, value in _items(settings)
        if value is not None or field.default is not None
    }


def as_toml(settings: Any) -> str:
    """Return a settings dataclass as TOML, with all defaults."""
    return "\n".join(_toml_lines(settings, "")).strip() + "\n"


def _items(settings: Any) -> list[tuple[Field[Any], Any]]:
    return [(field, getattr(settings, field.name)) for field in fields(settings)]


def _toml_lines(settings: Any, path: str) -> list[str]:
    simple, tables = [], []
    for field, value in _items(settings):
        inner = f"{path}{field.name}"
        if is_dataclass(value):
            tables += ["", f"[{inner}]", *_toml_lines(value, f"{inner}.")]
        elif isinstance(value, tuple) and any(is_dataclass(each) for each in value):
            for each in value:
                tables += ["", f"[[{inner}]]", *_toml_lines(each, f"{inner}.")]
        elif value is None and field.default is None:
            simple.append(f"# {field.name} is not set")
        else:
            simple.append(f"{field.name} = {_toml_value(value)}")
    return simple + tables


def _toml_value(value: Any) -> str:
    if value is None:
        return _toml_string(ABSENT)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml_value(each) for each in value) + "]"
    return repr(value)


def _toml_string(text: str) -> str:
    named = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    written = (named.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in text)
    return '"' + "".join(written) + '"'


def _convert(kind: Any, value: Any, path: str) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise SettingsError([f"{path} is too large: {value.bit_length():,} bits"])
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None or value == ABSENT:
            return None
        (inner,) = [each for each in arguments if each is not NoneType]
        return _convert(inner, value, path)
    if origin is Literal:
        if not any(value == each and type(value) is type(each) for each in arguments):
            raise SettingsError([f"{path} must be {_one_of(arguments)}, not {value!r}"])
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise SettingsError([f"{path} must be a list in [ ], not {value!r}"])
        return _converted_list(arguments[0], value, path)
    if is_dataclass(kind):
        assert isinstance(kind, type)
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise SettingsError([f"{path} must be a table, not {value!r}"])
        return read(kind, value, f"{path}.")
    return _converted_value(kind, value, path)


def _converted_list(kind: Any, values: Iterable[Any], path: str) -> tuple[Any, ...]:
    converted, problems = [], []
    for index, value in enumerate(values):
        try:
            converted.append(_convert(kind, value, f"{path}[{index}]"))
        except SettingsError as error:
            problems += error.problems
    if problems:
        raise SettingsError(problems)
    return tuple(converted)


def _converted_value(kind: Any, value: Any, path: str) -> Any:
    number = {int: Integral, float: Real}.get(kind)  # NumPy's are some too
    if number and isinstance(value, number) and not isinstance(value, bool):
        return kind(value)
    if type(value) is not kind:
        raise SettingsError([f"{path} must be {KINDS[kind]}, not {value!r}"])
    if kind is str and not _is_unicode(value):
        raise SettingsError([f"{path} must be text in UTF-8, not {value!r}"])
    return value


def _is_unicode(text: str) -> bool:
    """Return whether ``text`` has no lone surrogates (bytes that are not UTF-8)."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _one_of(names: Iterable[Any]) -> str:
    shown = [repr(name) for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _hint(name: str, where: str, hints: Mapping[str, Any]) -> str:
    """Return what may have been meant: a setting here, or in a table of it."""
    if close := get_close_matches(name, list(hints), n=1):
        return f"did you mean {where}{close[0]}?"
    below = {
        each.name: f"{where}{table}.{each.name}"
        for table, hint in hints.items()
        if is_dataclass(hint)
        for each in fields(hint)
    }
    if close := get_close_matches(name, list(below), n=1, cutoff=0.8):
        return f"did you mean {below[close[0]]}?"
    return f"choose from {', '.join(hints)}"


def _parsed(text: str) -> Any:
    """Parse ``text`` as one TOML value, or return it as it is."""
    try:
        # Inside braces a comment or a second line, which TOML would drop, is an error.
        document = tomllib.loads(f"value = {{ value = {text} }}")
    except (ValueError, RecursionError):
        return text
    if document.keys() != {"value"} or document["value"].keys() != {"value"}:
        return text
    value = document["value"]["value"]
    return text if isinstance(value, datetime.date | datetime.time) else value


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return as_table(value)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return ABSENT if value is None else value


def _copied(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _copied(value) if isinstance(value, Mapping) else value
        for name, value in table.items()
    }
