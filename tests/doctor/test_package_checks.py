"""Checks of packages: missing, too old, or extras, each with the command to type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from headwise.doctor import package_checks
from headwise.doctor.package_checks import check_packages, within

NEEDS = [
    "torch>=2.11",
    "typer<0.29,>=0.16",
    "ctranslate2>=4.8; extra == 'fast'",
    "pytest>=8; extra == 'dev'",
]


@pytest.fixture
def installed(monkeypatch):
    """Return what says which versions are installed."""

    def say(**versions):
        monkeypatch.setattr(package_checks, "requires", lambda name: NEEDS)
        monkeypatch.setattr(package_checks, "_version", versions.get)
        return {each.what: each for each in check_packages()}

    return say


def test_every_requirement_is_checked():
    found = {each.what: each for each in check_packages()}

    assert {"torch", "safetensors", "ctranslate2 (fast)"} <= found.keys()
    assert {each.status for each in found.values()} == {"ok"}


def test_a_missing_package_is_a_fault_and_a_missing_extra_none(installed):
    found = installed(typer="0.20.0")

    assert (found["torch"].status, found["torch"].found) == ("FAILED", "missing")
    assert found["torch"].advice == 'pip install "torch>=2.11"'
    assert found["ctranslate2 (fast)"].status == "skipped"
    assert found["ctranslate2 (fast)"].advice == "pip install 'headwise[fast]'"
    assert found["typer"].status == "ok"
    assert not any("pytest" in name for name in found)


def test_a_version_out_of_bounds_is_a_fault(installed):
    found = installed(torch="2.5.1+cpu", typer="0.29.1", ctranslate2="3.0")

    assert found["torch"].found == "2.5.1+cpu, but >=2.11 is needed"
    assert found["typer"].status == found["ctranslate2 (fast)"].status == "FAILED"


def test_a_folder_that_was_not_installed_is_no_fault():
    (check,) = check_packages("no-such-package")
    assert check.status == "skipped"


NUMBERS = st.lists(st.integers(0, 12), min_size=1, max_size=3).map(
    lambda each: ".".join(map(str, each))
)


@given(NUMBERS, NUMBERS, st.sampled_from([">=", "<=", ">", "<", "==", "!="]))
def test_bounds_mean_what_pip_means_by_them(here, bound, sign):
    specifier = f"{sign}{bound}"
    assert within(here, specifier) == SpecifierSet(specifier).contains(here)
    both = f"{specifier},>=2.3"
    assert within(here, both) == SpecifierSet(both).contains(here)


def test_the_name_of_a_build_changes_nothing():
    assert within("2.13.0+cpu", ">=2.11")
