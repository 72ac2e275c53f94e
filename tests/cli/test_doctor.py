"""``headwise doctor``: what was found, and a code that scripts can trust."""

import shutil


def test_a_sound_model_is_code_0(headwise, tiny_run):
    found = headwise("doctor", tiny_run)

    assert (found.code, found.error) == (0, "")
    assert [line.partition(":")[0] for line in found.out.splitlines()] == [
        *("ok  files", "ok  weights", "ok  tokenizers", "ok  golden translations")
    ]


def test_a_damaged_model_is_code_5_with_advice(headwise, tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run / "best", tmp_path / "model")
    (folder / "config.json").write_text("{}")
    found = headwise("doctor", folder)

    assert found.code == 5
    assert found.out.startswith("BAD folder: ")
    assert "config.json" in found.out
    assert "1 of 1 checks failed" in found.error


def test_the_machine_is_described(headwise):
    found = headwise("doctor")

    assert "ok  torch: " in found.out
    assert found.code in (0, 6)
