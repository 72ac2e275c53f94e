"""Checks of a model folder: every fault is found, and no other."""

import json
import math
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from headwise import storage
from headwise.doctor import check_folder
from headwise.run_folder.model_folder import open_model_folder, write_model_folder

TORCH = "golden translations, torch, cpu, float32"


@pytest.mark.parametrize("name", ["", "best"])
def test_a_sound_folder_has_no_fault(tiny_run, faults, name):
    checks = list(check_folder(tiny_run / name))

    assert faults(checks) == {}
    found = {each.what: each for each in checks}
    assert {"files", "weights", "tokenizers", TORCH} <= found.keys()
    assert found[TORCH].found == "5 of 5 as stored"


def test_every_damaged_file_is_named_and_nothing_is_opened(folder):
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "golden.json").unlink()

    *damaged, rest = check_folder(folder)

    assert [each.status for each in damaged] == ["FAILED", "FAILED"]
    assert "golden.json is missing" in damaged[0].found
    assert "model.safetensors does not match" in damaged[1].found
    assert "copy it again" in damaged[0].advice
    assert (rest.what, rest.status) == ("all other checks", "skipped")


def test_a_model_that_is_replaced_meanwhile_is_checked_again(
    folder, faults, monkeypatch
):
    """A run put a better one there after the older one's manifest was read."""
    newer = shutil.copytree(folder, folder.with_name("newer"))
    opened = open_model_folder(newer)
    with torch.no_grad():
        opened.model.embeddings.target.vectors.mul_(1.5)
    write_model_folder(
        newer,
        model=opened.model,
        task=opened.task,
        decoding=opened.decoding,
        facts=opened.facts,
        golden_sources=[each.source for each in opened.golden],
        card="# newer\n",
    )
    damages = storage.damaged_files

    def replaced_before(path, manifest):
        if newer.exists():
            folder.rename(folder.with_name("older"))
            newer.rename(folder)
        return damages(path, manifest)

    monkeypatch.setattr(storage, "damaged_files", replaced_before)
    found = list(check_folder(folder))

    assert not newer.exists()
    assert faults(found) == {}
    assert TORCH in {each.what for each in found}


def test_damage_that_changes_neither_size_nor_time_is_found(folder, faults):
    """A disk that lies: no time stamp would tell."""
    import os

    path = folder / "model.safetensors"
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert "model.safetensors" in faults(check_folder(folder))["files"].found


def test_a_folder_that_is_none_is_the_whole_report(tmp_path):
    (check,) = check_folder(tmp_path)

    assert check.status == "FAILED"
    assert "neither a model folder" in check.found


def test_weights_that_do_not_fit_are_found(folder, agree, faults):
    weights = load_file(folder / "model.safetensors")
    weights.pop(sorted(weights)[0])
    save_file(weights, folder / "model.safetensors")
    agree(folder, "model.safetensors")

    assert "is missing" in faults(check_folder(folder))["weights"].found


def test_weights_that_are_no_numbers_are_found(folder, agree, faults):
    weights = load_file(folder / "model.safetensors")
    next(iter(weights.values())).view(-1)[3] = math.nan
    save_file(weights, folder / "model.safetensors")
    agree(folder, "model.safetensors")

    assert "NaN or infinity" in faults(check_folder(folder))["weights"].found


def test_an_exchanged_vocabulary_of_the_same_size_is_found(folder, agree, faults):
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

    assert TORCH in faults(check_folder(folder))


def test_a_folder_without_golden_translations_says_so(folder, agree, faults):
    (folder / "golden.json").write_text("[]")
    agree(folder, "golden.json")

    found = {each.what: each for each in check_folder(folder)}
    assert faults(found.values()) == {}
    assert found["golden translations"].status == "skipped"
    assert found["tokenizers"].status == "skipped"


def test_a_golden_translation_that_comes_out_otherwise_is_found(folder, agree, faults):
    golden = json.loads((folder / "golden.json").read_text())
    golden[1]["output"] += " six six"
    (folder / "golden.json").write_text(json.dumps(golden))
    agree(folder, "golden.json")

    fault = faults(check_folder(folder))[TORCH]
    assert fault.found.startswith("4 of 5 as stored; ")
    assert golden[1]["source"] in fault.found
    assert "headwise evaluate" in fault.advice


def test_the_same_words_with_other_probabilities_are_found(folder, agree, faults):
    golden = json.loads((folder / "golden.json").read_text())
    golden[2]["log_probability"] -= 1.0
    (folder / "golden.json").write_text(json.dumps(golden))
    agree(folder, "golden.json")

    assert "log-probabilities differ by" in faults(check_folder(folder))[TORCH].found
