"""Checks of exports, with the programs that run them."""

import json
import shutil
from dataclasses import replace

import pytest

from headwise.doctor import export_checks
from headwise.doctor.export_checks import TOOLS, check_exports
from headwise.interop.exports import EXPORTS, export
from headwise.run_folder.model_folder import open_model_folder


@pytest.fixture
def opened(folder):
    return open_model_folder(folder)


@pytest.fixture
def write(opened):
    def make(target, **how):
        out = opened.path / "exports" / target
        export(out, opened, target=target, **how)
        return out

    return make


def named(checks):
    return {each.what.removeprefix("exports/"): each for each in checks}


def test_every_target_has_a_program():
    assert TOOLS.keys() == EXPORTS.keys()


@pytest.mark.parametrize("target", EXPORTS)
def test_a_sound_export_gives_the_golden_translations(opened, write, target):
    write(target)
    found = named(check_exports(opened))

    assert list(found) == [
        *(target, f"{target}, weights", f"{target}, golden translations")
    ]
    assert {each.status for each in found.values()} == {"ok"}
    assert found[f"{target}, golden translations"].found == "5 of 5 as stored"


@pytest.mark.parametrize("target", EXPORTS)
def test_an_export_in_a_folder_whose_name_is_not_utf_8_is_not_run(
    opened, write, target, tmp_path
):
    """It was a fault, and was to be deleted: nothing was wrong with it."""
    write(target)
    moved = open_model_folder(shutil.copytree(opened.path, tmp_path / "caf\udce9"))
    check = named(check_exports(moved))[f"{target}, golden translations"]

    assert check.status == "skipped"
    assert check.found.endswith("cannot open a folder whose name is not UTF-8")


def test_a_model_without_exports_has_none(opened):
    assert list(check_exports(opened)) == []


def test_a_damaged_export_is_not_opened(opened, write):
    (write("ctranslate2") / "model.bin").write_bytes(b"")

    (check,) = check_exports(opened)
    assert check.status == "FAILED"
    assert "model.bin" in check.found
    assert check.advice == "delete it, and run headwise export again"


def test_an_export_of_other_weights_is_found(opened, write, agree):
    out = write("ctranslate2")
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(
        json.dumps({**manifest, "weights_sha256": "0" * 64})
    )
    agree(out, "config.json")  # which seals the manifest

    *_, last = check_exports(opened)
    assert (last.what, last.status) == ("exports/ctranslate2, weights", "FAILED")
    assert "headwise export" in last.advice


def test_a_tool_that_is_not_installed_is_named_with_its_extra(
    opened, write, monkeypatch
):
    write("huggingface")
    monkeypatch.setattr(export_checks, "find_spec", lambda name: None)

    *_, last = check_exports(opened)
    assert last.status == "skipped"
    assert last.found == "transformers, which runs it, is not installed"
    assert last.advice == "pip install 'headwise[export]'"


def test_an_export_that_says_other_words_is_found(opened, write):
    write("ctranslate2")
    golden = (opened.golden[0], *opened.golden[:4])
    object.__setattr__(opened, "golden", golden)
    first = opened.golden[1]
    object.__setattr__(first, "output", "never")

    *_, last = check_exports(opened)
    assert last.status == "FAILED"
    assert "and now gives" in last.found


def test_a_folder_of_another_kind_is_no_export(opened):
    shutil.copytree(opened.path / "tokenizer", opened.path / "exports" / "mine")

    (check,) = check_exports(opened)
    assert check.status == "FAILED"
    assert "manifest.json" in check.found


@pytest.mark.parametrize(
    ("search", "ctranslate2", "huggingface"),
    [
        ({}, True, False),  # transformers has no patience
        ({"patience": 1.0}, True, True),
        ({"patience": 1.0, "length_penalty": "none"}, True, True),
        ({"length_penalty": "gnmt"}, False, False),
        ({"patience": 1.0, "length_penalty": "word-reward"}, False, False),
        ({"beam": 1, "length_penalty": "word-reward"}, False, False),
        ({"stopping": "exact"}, False, True),
        ({"beam": 1, "stopping": "exact", "length_penalty": "gnmt"}, True, True),
    ],
)
def test_words_must_agree_where_both_search_alike(
    opened, search, ctranslate2, huggingface
):
    changed = replace(opened, decoding=replace(opened.decoding, **search))

    assert export_checks._same_search(changed, "ctranslate2") is ctranslate2
    assert export_checks._same_search(changed, "huggingface") is huggingface
