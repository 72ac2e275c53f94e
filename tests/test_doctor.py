"""The doctor finds what is wrong, and finds nothing where nothing is."""

import hashlib
import json
import math
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from headwise import __version__, doctor
from headwise.doctor import look_at_folder, look_at_machine
from headwise.storage.manifests import seal


@pytest.fixture
def folder(tiny_run, tmp_path):
    return shutil.copytree(tiny_run / "best", tmp_path / "model")


def faults(findings):
    return {each.what: each for each in findings if each.advice is not None}


def agree(folder, name):
    """Make the manifest say what the file now holds."""
    manifest = json.loads((folder / "manifest.json").read_text())
    content = (folder / name).read_bytes()
    manifest["files"][name] = {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    manifest["sha256"] = seal(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_the_machine_is_described():
    found = {each.what: each.found for each in look_at_machine()}

    assert found["headwise"] == __version__
    assert found["torch"] == torch.__version__
    assert {"processor", "memory", "disk here", "GPU", "threads of torch"} <= set(found)


def test_a_missing_package_is_a_fault_with_advice(monkeypatch):
    monkeypatch.setattr(doctor, "PACKAGES", ("no_such_package",))

    fault = faults(look_at_machine())["no_such_package"]
    assert (fault.found, fault.advice) == (
        "missing",
        "install headwise again with pip",
    )


def test_more_threads_than_cores_are_a_fault(monkeypatch):
    monkeypatch.setattr(doctor, "_cores", lambda: 0)

    assert "--threads 0" in faults(look_at_machine())["threads of torch"].advice


def test_a_full_disk_is_a_fault(monkeypatch):
    usage = shutil.disk_usage("/")._replace(free=2**20)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)

    assert "free some space" in faults(look_at_machine())["disk here"].advice


@pytest.mark.parametrize("name", ["", "best"])
def test_a_sound_model_has_no_fault(tiny_run, name):
    findings = list(look_at_folder(tiny_run / name))

    assert faults(findings) == {}
    assert [each.what for each in findings] == [
        *("files", "weights", "tokenizers", "golden translations")
    ]
    assert findings[-1].found == "5 of 5 as when written"


def test_a_damaged_file_is_the_whole_report(folder):
    (folder / "model.safetensors").write_bytes(b"")

    (finding,) = look_at_folder(folder)
    assert "model.safetensors" in finding.found
    assert finding.advice


def test_a_folder_that_is_none_is_the_whole_report(tmp_path):
    (finding,) = look_at_folder(tmp_path)
    assert "neither a model folder" in finding.found


def test_weights_that_are_no_numbers_are_found(folder):
    weights = load_file(folder / "model.safetensors")
    next(iter(weights.values())).view(-1)[3] = math.nan
    save_file(weights, folder / "model.safetensors")
    agree(folder, "model.safetensors")

    found = faults(look_at_folder(folder))
    assert "not finite" in found["weights"].found
    # The search cannot go on with them, and that ends no report.
    assert "not numbers" in found["golden translations"].found


def test_a_golden_translation_that_comes_out_otherwise_is_found(folder):
    golden = json.loads((folder / "golden.json").read_text())
    golden[1]["output"] += " six six"
    golden[2]["log_probability"] -= 1.0
    (folder / "golden.json").write_text(json.dumps(golden))
    agree(folder, "golden.json")

    fault = faults(look_at_folder(folder))["golden translations"]
    assert fault.found.startswith("2 of 5 differ")
    assert golden[1]["source"] in fault.found
    assert "headwise evaluate" in fault.advice


def test_an_exchanged_vocabulary_of_the_same_size_is_found(folder):
    """Every shape fits and every sum agrees; only the words are others'."""
    other = {"one": "zwo", "two": "drey", "three": "xxvy", "four": "jqkz"}
    from headwise.text.settings import TextSettings
    from headwise.text.tokenizer import train_tokenizers

    pairs = [(word * 3, said * 5) for word, said in other.items()]
    tokenizers = train_tokenizers(
        lambda: pairs, TextSettings(vocab_size=50, tokenizer="bpe"), seed=1
    )
    if tokenizers.source.size != 50:
        pytest.skip("the other vocabulary came out in another size")
    tokenizers.save(folder / "tokenizer")
    for name in ("tokenizer/spm.model", "tokenizer/tokenizer.json"):
        agree(folder, name)

    assert "golden translations" in faults(look_at_folder(folder))


def test_a_folder_without_golden_translations_says_so(folder):
    (folder / "golden.json").write_text("[]")
    agree(folder, "golden.json")

    findings = list(look_at_folder(folder))
    assert faults(findings) == {}
    assert findings[-1].found == "the folder holds none"
