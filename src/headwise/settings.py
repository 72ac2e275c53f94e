"""Settings: TOML tables to dataclasses and back; what is unknown is refused.

A settings dataclass states each default once, documents each field by the string below
it, and checks itself in ``__post_init__`` by raising a ``SettingsError`` that lists every
problem. Types understood: ``bool``, ``int``, ``float``, ``str``, ``Literal``, another
settings dataclass, ``tuple[X, ...]`` of any of these, and each of them ``| None``
(``None`` is written as an absent line, since TOML has no null).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from headwise.errors import SettingsError

T = TypeVar("T")


def read(kind: type[T], table: Mapping[str, Any], where: str = "") -> T:
    """Build the dataclass ``kind`` from ``table``; tables inside it likewise.

    ``where`` is the path to ``table`` in the file, such as ``"training."``, and
    starts every problem, so that a reader can find the line to mend.
    """
    hints = get_type_hints(kind)
    problems = [
        f"{where}{name} is not a setting; {_hint(name, hints)}"
        for name in table
        if name not in hints
    ]
    values: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        path = f"{where}{field.name}"
        if field.name in table:
            try:
                values[field.name] = _convert(
                    hints[field.name], table[field.name], path
                )
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
    """Return the tables of a TOML file; a syntax error names file, line and column."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"{path} cannot be read: {error}"]) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"{path} is not valid TOML: {error}"]) from None


def overridden(table: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Return ``table`` with assignments such as ``training.steps=60`` applied.

    The right side is read as a TOML value, and as plain text where it is not one, so
    that ``text.tokenizer=words`` needs no quotes. ``none`` takes a setting away.
    """
    result: dict[str, Any] = _copied(table)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        names = path.strip().split(".")
        if not equals or not all(names):
            raise SettingsError(
                [
                    f"--set wants path=value, such as training.steps=60; "
                    f"{assignment!r} is not of that form"
                ]
            )
        inner = result
        for name in names[:-1]:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise SettingsError([f"{path}: {name} is a value, not a table"])
        if text.strip() == "none":
            inner.pop(names[-1], None)
        else:
            inner[names[-1]] = _parsed(text.strip())
    return result


def as_table(settings: Any) -> dict[str, Any]:
    """Return a settings dataclass as plain tables, without what is ``None``."""
    return {
        field.name: _plain(getattr(settings, field.name))
        for field in fields(settings)
        if getattr(settings, field.name) is not None
    }


def as_toml(settings: Any) -> str:
    """Write a settings dataclass as TOML, every default spelled out."""
    return "\n".join(_toml_lines(settings, "")).strip() + "\n"


def _toml_lines(settings: Any, path: str) -> list[str]:
    simple, tables = [], []
    for field in fields(settings):
        value = getattr(settings, field.name)
        inner = f"{path}{field.name}"
        if is_dataclass(value):
            tables += ["", f"[{inner}]", *_toml_lines(value, f"{inner}.")]
        elif isinstance(value, tuple) and any(is_dataclass(each) for each in value):
            for each in value:
                tables += ["", f"[[{inner}]]", *_toml_lines(each, f"{inner}.")]
        elif value is None:
            simple.append(f"# {field.name} is not set")
        else:
            simple.append(f"{field.name} = {_toml_value(value)}")
    return simple + tables


def _toml_value(value: Any) -> str:
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
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (inner,) = [each for each in arguments if each is not NoneType]
        return None if value is None else _convert(inner, value, path)
    if origin is Literal:
        if value not in arguments:
            raise SettingsError([f"{path} must be {_one_of(arguments)}, not {value!r}"])
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise SettingsError([f"{path} must be a list, not {value!r}"])
        return tuple(
            _convert(arguments[0], each, f"{path}[{index}]")
            for index, each in enumerate(value)
        )
    if is_dataclass(kind):
        if is_dataclass(value):
            return value
        if not isinstance(value, Mapping):
            raise SettingsError([f"{path} must be a table, not {value!r}"])
        return read(kind, value, f"{path}.")  # type: ignore[arg-type]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        words = {
            int: "a whole number",
            float: "a number",
            str: "a text",
            bool: "true or false",
        }
        raise SettingsError([f"{path} must be {words[kind]}, not {value!r}"])
    return value


def _one_of(names: Iterable[Any]) -> str:
    shown = [repr(name) for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _hint(name: str, known: Mapping[str, Any]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return as_table(value)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


def _copied(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _copied(value) if isinstance(value, Mapping) else value
        for name, value in table.items()
    }
