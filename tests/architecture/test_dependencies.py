"""Every dependency is pinned in constraints.txt, within what pyproject.toml allows."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [
    Requirement(line)
    for line in [
        *PROJECT["dependencies"],
        *(each for e in EXTRAS.values() for each in e),
    ]
]
ONLY_WITH_A_GPU = re.compile("nvidia-.*|cuda-.*|triton|pytorch-triton.*")


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    names = [line.split("==") for line in lines if not line.startswith("#")]
    return dict(names)


def needed() -> set[str]:
    """Name what is installed for headwise, for its tests, for these, and so on."""
    found: set[str] = set()
    waiting = [(wanted, "") for wanted in DIRECT]
    while waiting:
        wanted, extra = waiting.pop()
        name = canonicalize_name(wanted.name)
        here = wanted.marker is None or wanted.marker.evaluate({"extra": extra})
        if not here or name in found or ONLY_WITH_A_GPU.fullmatch(name):
            continue
        found.add(name)
        try:
            theirs = [Requirement(line) for line in requires(name) or []]
        except PackageNotFoundError:
            pytest.fail(f"{name} is not installed: scripts/setup installs it")
        waiting += [(each, extra) for each in theirs for extra in {"", *wanted.extras}]
    return found


def test_everything_that_is_needed_is_pinned():
    assert sorted(needed() - pins().keys()) == []


def test_every_extra_is_installed_for_the_tests():
    setup = (ROOT / "scripts" / "setup").read_text(encoding="utf-8")
    assert f"'.[{','.join(sorted(EXTRAS))}]'" in setup


def test_the_file_is_in_order_so_that_changes_are_easy_to_see():
    assert list(pins()) == sorted(canonicalize_name(name) for name in pins())


@pytest.mark.parametrize("wanted", DIRECT, ids=str)
def test_what_is_pinned_is_what_the_project_allows(wanted):
    assert wanted.specifier.contains(pins()[canonicalize_name(wanted.name)])
