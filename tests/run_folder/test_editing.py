"""A model folder is replaced as a whole: new manifest, same weights."""

import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import torch

from headwise import storage
from headwise.decoding.settings import DecodingSettings
from headwise.errors import ModelError, ResourceError, SettingsError, UsageError
from headwise.interop.exports import export
from headwise.recipe import Recipe
from headwise.run_folder.card_edit import CardChanges
from headwise.run_folder.editing import edit_model
from headwise.run_folder.lock import locked
from headwise.run_folder.model_folder import golden_pairs, open_model_folder
from headwise.run_folder.safetensors_files import read_tensors, write_tensors
from headwise.settings import as_table, read, read_toml

LICENSED = CardChanges(license="cc-by-4.0", languages=("en", "de"), title="Captions")


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_another_search_is_what_the_model_uses_from_then_on(model_folder):
    before = files(model_folder)
    done = edit_model(model_folder, search={"beam": 2, "alpha": 0.5})

    opened = open_model_folder(model_folder)
    assert (opened.decoding.beam, opened.decoding.alpha) == (2, 0.5)
    assert done.search == {"beam": (4, 2), "alpha": (1.0, 0.5)}
    changed = {
        name for name, data in files(model_folder).items() if data != before[name]
    }
    assert {"generation.json", "manifest.json"} <= changed
    assert changed <= {"generation.json", "golden.json", "manifest.json"}


def test_golden_translations_are_those_of_the_new_search(model_folder):
    """What the doctor compares with must be what this search gives."""
    sources = [each.source for each in open_model_folder(model_folder).golden]
    done = edit_model(
        model_folder, search={"max_length_factor": 0, "max_length_offset": 2}
    )

    opened = open_model_folder(model_folder)
    assert done.golden == len(sources) > 0
    assert [each.source for each in opened.golden] == sources
    assert list(opened.golden) == golden_pairs(
        opened.task, opened.model, sources, opened.decoding
    )
    assert max(len(each.output) for each in opened.golden) < 40


def test_thresholds_of_warnings_change_no_translation(model_folder):
    """The golden ones were made again, and both tables of thresholds were named."""
    before = files(model_folder)
    done = edit_model(model_folder, search={"warnings": {"copied": 0.5}})

    assert done.search == {"warnings.copied": (0.75, 0.5)}
    assert (done.search_changed, done.golden) == (False, 0)
    assert open_model_folder(model_folder).decoding.warnings.copied == 0.5
    assert files(model_folder)["golden.json"] == before["golden.json"]


def test_an_edited_card_changes_only_itself_and_the_manifest(model_folder):
    before = files(model_folder)
    done = edit_model(model_folder, search={}, card=LICENSED)

    after = files(model_folder)
    assert done.card_changed
    assert {name for name in after if after[name] != before[name]} == {
        *("README.md", "manifest.json"),
    }
    assert after.keys() == before.keys()
    assert b'license: "cc-by-4.0"' in after["README.md"]
    storage.verify(model_folder)


def test_an_edit_without_changes_writes_nothing(model_folder):
    edit_model(model_folder, search={}, card=LICENSED)
    before = (model_folder / "manifest.json").stat().st_ino
    done = edit_model(model_folder, search={"beam": 4}, card=LICENSED)

    assert (done.search, done.card_changed) == ({}, False)
    assert (model_folder / "manifest.json").stat().st_ino == before


def test_a_damaged_model_is_refused_and_gets_no_new_manifest(model_folder):
    (model_folder / "README.md").write_text("by hand")

    with pytest.raises(ModelError, match=r"README.md does not match manifest.json"):
        edit_model(model_folder, search={"beam": 2})
    assert (model_folder / "README.md").read_text() == "by hand"


def test_settings_that_cannot_be_leave_all_as_it_is(model_folder):
    before = files(model_folder)

    for table in ({"beam": 0}, {"bem": 5}, {"num_best": 3}, {"alignment_head": "9:9"}):
        with pytest.raises(SettingsError):
            edit_model(model_folder, search=table)
    assert files(model_folder) == before


def test_a_file_of_the_users_is_not_lost(model_folder):
    (model_folder / "exports").mkdir()
    mine = model_folder / "exports" / "mine.txt"
    mine.write_text("mine")

    with pytest.raises(
        UsageError, match=r"mine.txt does not belong to this model, and would"
    ):
        edit_model(model_folder, search={"beam": 2})
    assert mine.read_text() == "mine"


def test_exports_of_the_model_as_it_was_go_and_are_named(model_folder):
    """They hold its card and search; kept, they would be believed."""
    place = model_folder / "exports" / "ctranslate2-int8"
    export(
        place,
        open_model_folder(model_folder),
        target="ctranslate2",
        quantization="int8",
    )

    assert edit_model(model_folder, search={"beam": 4}).stale == ()
    assert place.is_dir(), "nothing has changed"
    assert edit_model(model_folder, search={"beam": 2}).stale == (
        "exports/ctranslate2-int8",
    )
    assert not place.exists()


@pytest.mark.parametrize("named", ["", "best"])
def test_the_run_of_a_model_changes_with_it(run_folder, named):
    """A better model of the run is written by its recipe, which must say the same."""
    done = edit_model(run_folder / named, search={"beam": 3}, card=LICENSED)

    recipe = read(Recipe, read_toml(run_folder / "recipe.toml"))
    assert done.recipe is not None
    assert recipe.decoding == DecodingSettings(beam=3)
    assert (recipe.license, recipe.languages) == ("cc-by-4.0", ("en", "de"))
    assert open_model_folder(run_folder / "best").decoding.beam == 3


def test_a_run_that_somebody_works_in_is_left_alone(run_folder):
    before = files(run_folder / "best")

    with locked(run_folder), pytest.raises(UsageError, match="another process"):
        edit_model(run_folder, search={"beam": 3})
    assert files(run_folder / "best") == before


def test_of_edits_at_once_none_is_lost(model_folder):
    """All said "written and sealed", and the last one won."""
    wanted = {"beam": 2, "alpha": 0.5, "patience": 3.0}

    def edit(name):
        while True:
            with suppress(UsageError):  # another one is at work
                edit_model(model_folder, search={name: wanted[name]})
                return

    with ThreadPoolExecutor() as threads:
        list(threads.map(edit, wanted))

    found = as_table(open_model_folder(model_folder).decoding)
    assert {name: found[name] for name in wanted} == wanted


def test_a_disk_that_fills_up_while_weights_are_copied_is_said(
    model_folder, monkeypatch
):
    def refuse(source, target):
        raise OSError(errno.ENOSPC, "No space left on device", source, None, target)

    before = files(model_folder)
    monkeypatch.setattr(shutil, "copyfile", refuse)
    with pytest.raises(ResourceError, match="what was there before is unchanged"):
        edit_model(model_folder, search={"beam": 2})

    assert files(model_folder) == before


def test_a_file_that_is_replaced_while_the_model_is_edited_is_noticed(
    model_folder, monkeypatch
):
    """The new manifest would vouch for weights of another model."""
    copy, before = shutil.copyfile, files(model_folder)
    path = model_folder / "model.safetensors"

    def replace_and_copy(source, target):
        if source == path:
            path.write_bytes(b"other weights")
        return copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", replace_and_copy)
    with pytest.raises(ModelError, match=r"model\.safetensors changed while it was"):
        edit_model(model_folder, search={"beam": 2})

    assert files(model_folder) == {**before, path.name: b"other weights"}


def test_a_model_that_was_changed_is_copied_and_used_like_any_other(
    model_folder, tmp_path
):
    edit_model(model_folder, search={"beam": 2}, card=LICENSED)
    copy = shutil.copytree(model_folder, tmp_path / "copy")

    assert open_model_folder(copy).decoding.beam == 2


def test_weights_as_float16_are_the_rounded_ones_in_half_the_space(model_folder):
    before = open_model_folder(model_folder)
    weights = {name: each.clone() for name, each in before.model.state_dict().items()}
    size = (model_folder / "model.safetensors").stat().st_size

    done = edit_model(model_folder, search={}, half=True)

    opened = open_model_folder(model_folder)
    assert done.weights_changed
    saved = size - (model_folder / "model.safetensors").stat().st_size
    assert saved == pytest.approx(2 * sum(map(torch.numel, weights.values())), abs=64)
    for name, each in opened.model.state_dict().items():
        assert each.dtype == torch.float32
        assert torch.equal(each, weights[name].half().float())
    sources = [each.source for each in opened.golden]
    assert list(opened.golden) == golden_pairs(
        opened.task, opened.model, sources, opened.decoding
    )


def test_weights_that_are_float16_are_not_written_again(model_folder):
    edit_model(model_folder, search={}, half=True)
    before = files(model_folder)

    done = edit_model(model_folder, search={}, half=True)

    assert not done.weights_changed
    assert files(model_folder) == before


def test_weights_too_large_for_float16_are_refused_and_nothing_is_lost(model_folder):
    path = model_folder / "model.safetensors"
    weights = read_tensors(path)
    name = next(iter(weights))
    weights[name] = weights[name] + 70_000
    with storage.new_folder(model_folder, describe={"kind": "model"}) as draft:
        shutil.copytree(model_folder, draft, dirs_exist_ok=True)
        (draft / "manifest.json").unlink()
        write_tensors(draft / path.name, weights)
    before = files(model_folder)

    with pytest.raises(SettingsError, match=r"weights beyond 65,504"):
        edit_model(model_folder, search={}, half=True)

    assert files(model_folder) == before
