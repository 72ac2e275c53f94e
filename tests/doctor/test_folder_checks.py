"""Checks of a run: recipe, corpus, checkpoints, best model."""

import math
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from headwise.doctor import check_folder
from headwise.interop.exports import export
from headwise.run_folder.model_folder import open_model_folder


@pytest.fixture
def last(run):
    return max((run / "checkpoints").iterdir())


def by_name(checks):
    return {each.what: each for each in checks}


def test_a_sound_run_has_no_fault(run, last):
    before = sorted(run.rglob("*"))
    found = by_name(check_folder(run))

    others = {what: each.status for what, each in found.items() if each.status != "ok"}
    assert others == {"card": "note"}  # it names no languages and no licence
    assert {
        *("recipe.toml", "prepared", last.name, f"{last.name}, numbers", "files")
    } <= found.keys()
    assert sorted(run.rglob("*")) == before


def test_a_damaged_checkpoint_is_found_and_left_where_it_is(run, last, faults):
    (last / "optimizer.safetensors").write_bytes(b"")

    fault = faults(check_folder(run))[last.name]
    assert "optimizer.safetensors" in fault.found
    assert last.is_dir()


def test_a_checkpoint_that_is_another_one_is_found(run, last, faults):
    other = last.with_name("step-00000999")
    shutil.copytree(last, other)

    fault = faults(check_folder(run))[f"{other.name}, contents"]
    assert "another checkpoint" in fault.found


def test_numbers_that_are_none_are_found(run, last, agree, faults):
    moments = load_file(last / "optimizer.safetensors")
    name = next(name for name in moments if name.endswith("exp_avg"))
    moments[name].view(-1)[0] = math.inf
    save_file(moments, last / "optimizer.safetensors")
    agree(last, "optimizer.safetensors")

    assert name in faults(check_folder(run))[f"{last.name}, numbers"].found


def test_moments_of_another_run_are_found(run, last, agree, faults):
    moments = load_file(last / "optimizer.safetensors")
    name = next(name for name in moments if name.endswith("exp_avg_sq"))
    moments[name] = torch.zeros(1, 2, 3)
    save_file(moments, last / "optimizer.safetensors")
    agree(last, "optimizer.safetensors")

    assert name in faults(check_folder(run))[f"{last.name}, contents"].found


def test_weights_that_do_not_fit_the_recipe_are_found(run, last, faults):
    path = run / "recipe.toml"
    path.write_text(path.read_text().replace("d_ff = 32", "d_ff = 48"))

    assert "shape" in faults(check_folder(run))[f"{last.name}, contents"].found


def test_a_recipe_that_is_none_is_found(run, faults):
    (run / "recipe.toml").write_text("sed = 3\n")

    assert "did you mean seed?" in faults(check_folder(run))["recipe.toml"].found


def test_a_damaged_corpus_is_found(run, faults):
    path = run / "prepared" / "train.tokens.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)

    assert "train.tokens.npy" in faults(check_folder(run))["prepared"].found


def test_a_run_that_has_just_begun_is_no_fault(run, faults):
    shutil.rmtree(run / "checkpoints")
    shutil.rmtree(run / "best")
    found = by_name(check_folder(run))

    assert faults(found.values()) == {}
    assert found["checkpoints"].status == found["best"].status == "skipped"


def test_what_was_set_aside_is_named(run, last):
    last.rename(last.with_name(f"damaged-{last.name}"))

    check = by_name(check_folder(run))[f"checkpoints/damaged-{last.name}"]
    assert (check.status, check.advice) == ("note", "delete it")


def test_a_single_checkpoint_is_checked(last, faults):
    found = by_name(check_folder(last))

    assert faults(found.values()) == {}
    assert f"{last.name}, numbers" in found


def test_an_export_alone_is_whole_and_cannot_be_tried(run, tmp_path, faults):
    opened = open_model_folder(run / "best")
    export(tmp_path / "out", opened, target="ctranslate2")
    found = by_name(check_folder(tmp_path / "out"))

    assert faults(found.values()) == {}
    assert found["files"].status == "ok"
    assert "exports/" in found["golden translations"].advice


def test_a_single_prepared_corpus_is_checked(run, faults):
    (check,) = check_folder(run / "prepared")
    assert check.status == "ok"

    (run / "prepared" / "dev.source.txt").write_text("other\n")
    assert "dev.source.txt" in faults(check_folder(run / "prepared"))["prepared"].found
