"""``headwise doctor``: its checks and its exit code."""

import json
import shutil

from headwise.run_folder.loader_script import SCRIPT


def test_a_sound_model_is_code_0(headwise, tiny_run):
    found = headwise("doctor", tiny_run / "best")

    assert (found.code, found.error) == (0, "")
    lines = [line.partition(":")[0] for line in found.out.splitlines()]
    assert lines[:4] == [
        *("ok      files", "ok      weights", "ok      tokenizers"),
        "ok      golden translations, torch, cpu, float32",
    ]


def test_a_sound_run_is_code_0(headwise, tiny_run):
    found = headwise("doctor", tiny_run)

    assert (found.code, found.error) == (0, "")
    assert found.out.startswith("ok      recipe.toml: ")


def test_a_damaged_model_is_code_5_with_advice(headwise, tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run / "best", tmp_path / "model")
    (folder / "config.json").write_text("{}")
    found = headwise("doctor", folder)

    assert found.code == 5
    first, advice, rest = found.out.splitlines()
    assert first.startswith("FAILED  files: ")
    assert "config.json" in first
    assert advice == "        → copy the folder again"
    assert rest.startswith("skipped all other checks: ")
    assert "1 of 2 checks failed" in found.error


def test_doctor_prints_json(headwise, tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run / "best", tmp_path / "model")
    (folder / "config.json").write_text("{}")

    for given, code, ok in ((tiny_run / "best", 0, True), (folder, 5, False)):
        found = headwise("doctor", given, "--json")
        report = json.loads(found.out)
        assert (found.code, report["ok"]) == (code, ok)
        assert {*report["checks"][0]} == {"what", "status", "found", "advice"}


def test_the_machine_is_described(headwise):
    found = headwise("doctor")

    assert "ok      torch: " in found.out
    assert found.code in (0, 6)


def test_the_loader_is_printed_as_it_stands(headwise):
    found = headwise("doctor", "--loader")

    assert (found.code, found.out, found.error) == (0, SCRIPT, "")


def test_the_loader_script_takes_no_folder(headwise, tiny_run):
    found = headwise("doctor", tiny_run, "--loader")

    assert (found.code, found.out) == (2, "")
    assert "for all folders" in found.error
