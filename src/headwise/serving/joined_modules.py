"""The modules of the page as one script, for a page that is a single file.

A page that was opened from a disk may not load modules from files, so that each module
becomes a function, called once, after those that it imports from. It is no bundler: the
modules keep to a few forms, and anything else raises.

    import { a, b as c } from "./other.js";      at the start of a line
    export const|function|async function|class name ...
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.{1,2}/[^"]+)";[ \t]*$', re.M)
_EXPORT = re.compile(
    r"^export (?=(?:const|class|(?:async )?function\*?)\s+([\w$]+))", re.M
)
_OTHER_FORM = re.compile(
    r"^(?:import\b|export\b).*|\bimport\(.*|\bimport\.meta\b", re.M
)


def joined_modules(main: str, read: Callable[[str], str]) -> str:
    """Return one script that does what loading the module ``main`` does.

    ``read`` returns the text of a module by its path. Raises ``ValueError`` for a form
    that is not one of those above, and for modules that import each other in a circle.
    """
    scopes: dict[str, str] = {}
    _join(main, read, scopes, ())
    body = "\n".join(scopes.values())
    return f'(() => {{\n"use strict";\nconst joinedModules = {{}};\n{body}\n}})();\n'


def _join(
    path: str,
    read: Callable[[str], str],
    scopes: dict[str, str],
    importing: tuple[str, ...],
) -> None:
    """Add the scope of a module to ``scopes``, after those that it imports from."""
    if path in importing:
        raise ValueError(f"modules import in a circle: {', '.join(importing)}, {path}")
    if path in scopes:
        return
    text = read(path)

    def imported(match: re.Match[str]) -> str:
        other = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[2]))
        _join(other, read, scopes, (*importing, path))
        names = re.sub(r"([\w$]+)\s+as\s+([\w$]+)", r"\1: \2", match[1])
        return f'const {{{names}}} = joinedModules["{other}"];'

    exported = [match[1] for match in _EXPORT.finditer(text)]
    body = _EXPORT.sub("", _IMPORT.sub(imported, text))
    if other_form := _OTHER_FORM.search(body):
        raise ValueError(f"{path}: {other_form[0]!r} is a form that cannot be joined")
    scopes[path] = (
        f'joinedModules["{path}"] = (() => {{\n{body}\n'
        f"return {{ {', '.join(exported)} }};\n}})();"
    )
