"""``headwise export``: a folder for another program, or every reason against it."""

import json
import shutil

import pytest

from headwise.interop.exports import EXPORTS


@pytest.mark.parametrize("target", EXPORTS)
def test_a_run_is_exported_to_ctranslate2(headwise, tiny_run, tmp_path, target):
    found = headwise("export", tiny_run, "--to", target, "--out", tmp_path / "new")

    assert (found.code, found.out) == (0, "")
    assert f"{target} in float32" in found.error
    manifest = json.loads((tmp_path / "new" / "manifest.json").read_text())
    assert (manifest["kind"], manifest["target"]) == ("export", target)


def test_the_same_command_replaces_the_export(headwise, tiny_run, tmp_path):
    command = ("export", tiny_run, "--to", "ctranslate2", "--out", tmp_path / "new")

    assert headwise(*command).code == 0
    assert headwise(*command, "--quantization", "int8").code == 0
    manifest = json.loads((tmp_path / "new" / "manifest.json").read_text())
    assert manifest["quantization"] == "int8"


def test_a_folder_with_something_else_in_it_stays_as_it_is(
    headwise, tiny_run, tmp_path
):
    (tmp_path / "thesis.tex").write_text("all of it")
    found = headwise("export", tiny_run, "--to", "ctranslate2", "--out", tmp_path)

    assert found.code == 2
    assert "already contains other files" in found.error
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("target", EXPORTS)
def test_a_model_is_not_replaced_by_its_export(headwise, tiny_run, tmp_path, target):
    """It was, once, and the weights were gone: both are folders of ours."""
    model = shutil.copytree(tiny_run / "best", tmp_path / "model")
    before = {path.name: path.read_bytes() for path in model.glob("*.*")}
    found = headwise("export", model, "--to", target, "--out", model)

    assert found.code == 2
    assert (
        "already contains a folder of kind 'model', which would be lost" in found.error
    )
    assert {path.name: path.read_bytes() for path in model.glob("*.*")} == before


def test_an_export_is_not_taken_for_a_model(headwise, tiny_run, tmp_path):
    out = tmp_path / "new"
    assert headwise("export", tiny_run, "--to", "ctranslate2", "--out", out).code == 0
    for command in (
        ["translate", out],
        ["export", out, "--to", "huggingface", "--out", tmp_path / "other"],
    ):
        found = headwise(*command)
        assert found.code == 5
        assert "is not a model folder (export to ctranslate2)" in found.error


def test_an_unknown_export_format_is_code_2(headwise, tiny_run, tmp_path):
    found = headwise("export", tiny_run, "--to", "onyx", "--out", tmp_path / "new")

    assert found.code == 2
    assert "'onyx' is not an export format; choose from ctranslate2" in found.error


def test_an_unknown_precision_is_code_2(headwise, tiny_run, tmp_path):
    found = headwise(
        *("export", tiny_run, "--to", "ctranslate2"),
        *("--out", tmp_path / "new", "--quantization", "int2"),
    )

    assert found.code == 2
    assert "float32, float16, int8" in found.error


def test_the_effect_of_quantization_is_reported(
    headwise, tiny_run, tiny_text, tmp_path
):
    command = ("export", tiny_run, "--to", "ctranslate2", "--out", tmp_path / "new")
    few = headwise(*command, "--quantization", "float16")
    assert (
        "float16 compared with float32: 5 of 5 translations are the same" in few.error
    )

    text = tmp_path / "some.en"
    text.write_text("".join(tiny_text[0].read_text().splitlines(True)[:20]))
    more = headwise(*command, "--quantization", "int8", "--compare", text)
    assert "of 20 translations are the same; BLEU between them " in more.error

    text.write_text("\n \n")
    none = headwise(*command, "--quantization", "int8", "--compare", text)
    assert "was not compared with float32: there is no text" in none.error


def test_without_ctranslate2_it_is_written_and_not_measured(
    headwise, tiny_run, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "headwise.inference.engines.ctranslate2_support.find_spec", lambda name: None
    )
    found = headwise(
        *("export", tiny_run, "--to", "ctranslate2", "--quantization", "int8"),
        *("--out", tmp_path / "new"),
    )

    assert found.code == 0
    assert (
        "was not compared with float32: the package ctranslate2 is not installed"
        in found.error
    )
    assert (tmp_path / "new" / "model.bin").is_file()
