"""Every engine in every precision translates again; exact ones must agree."""

import json
import tempfile
from dataclasses import replace

import pytest

from headwise.doctor.golden_translation_checks import (
    check_golden_translations,
    compare_with_golden,
)
from headwise.inference.engines import ctranslate2_support, native_engine
from headwise.run_folder.model_folder import open_model_folder

NAMES = [
    *("torch, cpu, float32", "torch, cpu, bfloat16", "native, float32"),
    *(f"ctranslate2, {each}" for each in ("float32", "float16", "int8")),
]


NEEDS_LIBRARY = pytest.mark.usefixtures("needs_native_library")


@pytest.fixture
def opened(folder):
    return open_model_folder(folder)


def named(checks):
    return {each.what.removeprefix("golden translations, "): each for each in checks}


@NEEDS_LIBRARY
def test_each_is_tried(opened):
    found = named(check_golden_translations(opened))

    assert [name for name in found if "cuda" not in name] == NAMES
    assert {found[name].status for name in NAMES} == {"ok"}
    assert found["ctranslate2, float32"].found == "5 of 5 as stored"


def test_nothing_is_left_in_the_folder(opened):
    before = sorted(opened.path.rglob("*"))
    list(check_golden_translations(opened))

    assert sorted(opened.path.rglob("*")) == before


def test_without_room_for_an_export_it_is_not_tried(opened, monkeypatch):
    """A full /tmp ended the doctor, though nothing is wrong with the model."""
    monkeypatch.setattr(tempfile, "tempdir", "/proc/none")
    found = named(check_golden_translations(opened))

    check = found["ctranslate2, float32"]
    assert check.status == "skipped"
    assert check.found.startswith("not tried: ")
    assert "set TMPDIR" in check.advice


def test_other_words_in_smaller_numbers_are_told_and_no_fault(opened):
    first, *others = (each.output for each in opened.golden)

    exact = compare_with_golden("x", opened, [f"{first}!", *others], must_agree=True)
    smaller = compare_with_golden("x", opened, [f"{first}!", *others], must_agree=False)

    assert (exact.status, smaller.status) == ("FAILED", "ok")
    assert f"gave {first!r} and now gives {first + '!'!r}" in smaller.found


@NEEDS_LIBRARY
def test_a_wrong_golden_translation_fails_every_exact_engine(folder, agree):
    golden = json.loads((folder / "golden.json").read_text())
    golden[0]["output"] = "never"
    (folder / "golden.json").write_text(json.dumps(golden))
    agree(folder, "golden.json")

    found = named(check_golden_translations(open_model_folder(folder)))
    failed = {name for name, each in found.items() if each.status == "FAILED"}
    exact = {"torch, cpu, float32", "native, float32", "ctranslate2, float32"}
    assert {name for name in failed if "cuda" not in name} == exact


def test_without_the_native_library_its_engine_is_skipped(opened, monkeypatch):
    monkeypatch.setattr(native_engine, "why_unavailable", lambda: "it is off")
    check = named(check_golden_translations(opened))["native, float32"]

    assert (check.status, check.found) == ("skipped", "it is off")


def test_an_engine_that_is_not_installed_is_skipped(opened, monkeypatch):
    monkeypatch.setattr(ctranslate2_support, "find_spec", lambda name: None)

    check = named(check_golden_translations(opened))["ctranslate2, int8"]
    assert check.status == "skipped"
    assert "pip install 'headwise[fast]'" in check.found


def test_a_search_that_an_engine_does_not_have_is_skipped(opened):
    paper = replace(opened.decoding, length_penalty="gnmt")

    found = named(check_golden_translations(replace(opened, decoding=paper)))
    assert "gnmt" in found["ctranslate2, float32"].found
    assert found["ctranslate2, float32"].status == "skipped"
