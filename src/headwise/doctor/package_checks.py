"""Checks of installed packages: requirements and extras."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import zip_longest

from headwise.doctor.check import FAILED, OK, SKIPPED, Check

REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[^]]*\])?\s*([^;]*?)\s*(?:;\s*(.*))?")
EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")
DEVELOPMENT = "dev"
"""The extra for developers of headwise, which is not checked."""


def check_packages(package: str = "headwise") -> Iterator[Check]:
    """Check each requirement of the installed headwise."""
    try:
        lines = requires(package) or []
    except PackageNotFoundError:
        found = "headwise runs from a source folder that was not installed"
        yield Check("packages", SKIPPED, found, "pip install -e FOLDER checks them")
        return
    for line in lines:
        found_parts = REQUIREMENT.fullmatch(line)
        assert found_parts is not None
        name, bounds, marker = found_parts.groups()
        extra = EXTRA.search(marker or "")
        if extra is None:
            yield _needed(name, bounds)
        elif extra[1] != DEVELOPMENT:
            yield _extra(name, bounds, extra[1])


def _needed(name: str, bounds: str) -> Check:
    here = _version(name)
    advice = f'pip install "{name}{bounds}"'
    if here is None:
        return Check(name, FAILED, "missing", advice)
    if not within(here, bounds):
        return Check(name, FAILED, f"{here}, but {bounds} is needed", advice)
    return Check(name, OK, here)


def _extra(name: str, bounds: str, extra: str) -> Check:
    here = _version(name)
    advice = f"pip install 'headwise[{extra}]'"
    if here is None:
        return Check(f"{name} ({extra})", SKIPPED, "not installed", advice)
    if not within(here, bounds):
        found = f"{here}, but {bounds} is needed"
        return Check(f"{name} ({extra})", FAILED, found, advice)
    return Check(f"{name} ({extra})", OK, here)


def within(here: str, bounds: str) -> bool:
    """Return whether a version satisfies bounds such as ``>=0.16,<0.29``."""
    for bound in filter(None, re.split(r"\s*,\s*", bounds)):
        number = bound.lstrip("<>=!~ ")
        sign, order = bound[: len(bound) - len(number)].strip(), _compare(here, number)
        allowed = {
            ">=": order >= 0,
            "<=": order <= 0,
            ">": order > 0,
            "<": order < 0,
            "==": order == 0,
            "!=": order != 0,
        }
        if not allowed.get(sign, True):
            return False
    return True


def _compare(one: str, other: str) -> int:
    """Compare two versions by their numbers; below 0 if ``one`` is older."""
    for mine, theirs in zip_longest(_numbers(one), _numbers(other), fillvalue=0):
        if mine != theirs:
            return mine - theirs
    return 0


def _numbers(text: str) -> list[int]:
    release = re.match(r"\d+(?:\.\d+)*", text)
    return [int(each) for each in release[0].split(".")] if release else []


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
