"""Checkpoints are whole or absent, and damage costs no more than it must."""

import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.errors import ModelError
from headwise.run_folder.checkpoints import Checkpoints, step_of
from headwise.storage import NewerFormat, new_folder, verify
from headwise.training.state import TrainingState

OLD = Path(__file__).parent / "old_checkpoints"


@pytest.fixture
def said():
    return []


@pytest.fixture
def checkpoints(tmp_path, said):
    return Checkpoints(tmp_path / "checkpoints", said.append)


def save(checkpoints, *steps, best_step=0):
    for step in steps:
        checkpoints.save(
            TrainingState(step=step, best_value=0.1, best_step=best_step, seconds=1.5),
            {"w": torch.tensor([float(step)])},
            {"w.exp_avg": torch.tensor([step / 2]), "updates": torch.tensor(step)},
            corpus="of this text",
        )


def names(checkpoints):
    return sorted(path.name for path in checkpoints.folder.iterdir())


def steps(weights):
    return [each["w"].item() for each in weights]


def damage(path):
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x99")


def test_a_saved_checkpoint_is_opened_again(checkpoints):
    save(checkpoints, 20)
    found = checkpoints.newest()

    assert found.state == TrainingState(step=20, best_value=0.1, seconds=1.5)
    assert found.weights["w"].item() == 20
    assert found.optimizer["w.exp_avg"].item() == 10
    assert checkpoints.newest_corpus() == "of this text"


def test_a_checkpoint_has_the_ema_if_there_is_one(checkpoints):
    weights = {"w": torch.tensor([1.0])}
    checkpoints.save(TrainingState(step=1), weights, {}, corpus="c")
    assert checkpoints.newest().ema is None

    mean = {"w": torch.tensor([0.5])}
    checkpoints.save(TrainingState(step=2), weights, {}, ema=mean, corpus="c")
    assert checkpoints.newest().ema["w"].item() == 0.5
    assert checkpoints.newest().weights["w"].item() == 1.0


@pytest.mark.parametrize("kind", ["weights", "optimizer", "ema"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bfloat16])
def test_training_resumes_from_float32_only(checkpoints, said, kind, dtype):
    """From rounded weights or moments it would go on, and not say so."""
    save(checkpoints, 1)
    tensors = {each: {"w": torch.ones(2)} for each in ("weights", "optimizer", "ema")}
    tensors[kind] = {"w": torch.ones(2, dtype=dtype)}
    checkpoints.save(TrainingState(step=2), **tensors, corpus="c")

    assert checkpoints.newest().state.step == 1
    name = str(dtype).removeprefix("torch.")
    assert f"w is {name}; allowed: float32" in said[0]
    assert steps(checkpoints.last_weights(2, 1)) == [1]


def test_a_new_run_has_no_checkpoint(checkpoints):
    assert checkpoints.newest() is None
    assert checkpoints.newest_corpus() is None
    assert checkpoints.paths() == []


def test_steps_are_ordered_as_numbers_also_beyond_eight_digits(checkpoints):
    save(checkpoints, 100_000_000, 99_999_999, 3)

    assert checkpoints.newest().state.step == 100_000_000


def test_the_newest_that_verifies_is_taken_and_the_others_are_named(checkpoints, said):
    save(checkpoints, 10, 20, 30)
    damage(checkpoints.paths()[2])
    (checkpoints.paths()[1] / "state.json").unlink()

    assert checkpoints.newest().state.step == 10
    assert len(said) == 2
    assert "step-00000030 cannot be used" in said[0]
    assert "model.safetensors" in said[0]
    assert "state.json" in said[1]


def test_a_damaged_one_is_set_aside_so_that_its_step_can_be_saved_again(checkpoints):
    """With its manifest gone it looked like a folder of somebody else's.

    Training reached its step again, was refused to replace it, and could never pass.
    """
    save(checkpoints, 10, 20)
    (checkpoints.paths()[1] / "manifest.json").unlink()
    checkpoints.newest()
    save(checkpoints, 20)

    assert checkpoints.newest().state.step == 20
    assert names(checkpoints) == [
        *("damaged-step-00000020", "step-00000010", "step-00000020")
    ]


def test_the_same_step_can_be_damaged_twice(checkpoints):
    for _ in range(2):
        save(checkpoints, 10, 20)
        damage(checkpoints.paths()[1])
        assert checkpoints.newest().state.step == 10


def test_without_an_intact_checkpoint_nothing_is_started_or_moved(checkpoints):
    """Training from step 0 would soon write a worse model over the best."""
    save(checkpoints, 10, 20)
    for path in checkpoints.paths():
        damage(path)
    before = names(checkpoints)

    for _ in range(2):
        with pytest.raises(ModelError, match=r"no checkpoint .* another folder"):
            checkpoints.newest()
    assert names(checkpoints) == before


def test_checkpoints_at_the_interval_and_the_newest_two_are_kept(checkpoints):
    for step in (10, 20, 30, 40, 50):
        save(checkpoints, step)
        checkpoints.delete_old(2, 10)
    assert names(checkpoints) == ["step-00000040", "step-00000050"]

    for step in (53, 57):  # two stops in between
        save(checkpoints, step)
        checkpoints.delete_old(3, 10)
    assert names(checkpoints) == [f"step-000000{n}" for n in (40, 50, 53, 57)]


def test_an_interrupted_run_averages_what_an_uninterrupted_one_does(
    checkpoints, tmp_path, said
):
    calm = Checkpoints(tmp_path / "calm", said.append)
    for step in (10, 20, 30, 40):
        save(calm, step)
        calm.delete_old(3, 10)
    for step in (10, 13, 20, 24, 27, 30, 31, 40):
        save(checkpoints, step)
        checkpoints.delete_old(3, 10)

    assert steps(checkpoints.last_weights(3, 10)) == steps(calm.last_weights(3, 10))
    assert steps(calm.last_weights(3, 10)) == [20, 30, 40]


def test_the_last_step_is_averaged_whatever_its_number(checkpoints):
    save(checkpoints, 10, 20, 23)

    assert steps(checkpoints.last_weights(2, 10)) == [20, 23]
    save(checkpoints, 30)  # the run was made longer
    assert steps(checkpoints.last_weights(3, 10)) == [10, 20, 30]


def test_averaging_skips_a_damaged_checkpoint_with_a_message(checkpoints, said):
    """After hours of training, an old checkpoint must not take the end away."""
    save(checkpoints, 10, 20, 30)
    damage(checkpoints.paths()[0])

    assert steps(checkpoints.last_weights(3, 10)) == [20, 30]
    assert "step-00000010 is left out of the average" in said[0]


def test_foreign_folders_are_no_checkpoints(checkpoints):
    save(checkpoints, 10)
    (checkpoints.folder / "step-notes").mkdir()
    (checkpoints.folder / "step-00000020.bak").mkdir()
    (checkpoints.folder / ".step-00000030.0a1b2c3d.unfinished").mkdir()

    assert [path.name for path in checkpoints.paths()] == ["step-00000010"]
    assert checkpoints.newest().state.step == 10


def test_a_state_that_was_put_there_later_is_damage(checkpoints, said):
    save(checkpoints, 10, 20)
    path = checkpoints.paths()[1]
    shutil.copy(path / "manifest.json", path / "state.json")

    assert checkpoints.newest().state.step == 10
    assert "state.json" in said[0]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"format": 2}, "has format 2"),
        ({"format": "new"}, "has format 'new'"),
        ({"mood": "good", "tries": 3}, "contains mood, tries"),
    ],
)
def test_a_checkpoint_of_a_newer_version_is_no_damage(
    checkpoints, rewrite, changes, problem
):
    """To go on from an older one would silently lose what was learned since."""
    save(checkpoints, 10, 20)
    path = checkpoints.paths()[1]
    table = json.loads((path / "state.json").read_text())
    rewrite(path, "state.json", json.dumps({**table, **changes}))

    with pytest.raises(NewerFormat, match=f"{problem}.*use a newer headwise"):
        checkpoints.newest()
    assert names(checkpoints) == ["step-00000010", "step-00000020"]


@pytest.mark.parametrize("content", ["[]", "3", '{"step": "ten"}', '{"step": null}'])
def test_a_state_that_says_nothing_of_use_is_damage(
    checkpoints, rewrite, content, said
):
    save(checkpoints, 10, 20)
    rewrite(checkpoints.paths()[1], "state.json", content)

    assert checkpoints.newest().state.step == 10
    assert "is not a training state" in said[0]


def test_a_checkpoint_of_version_0_1_opens_for_ever(tmp_path, said):
    """Its manifest has no SHA-256 of itself, and its state no format."""
    found = Checkpoints(OLD, said.append).newest()

    assert found.state == TrainingState(step=3, tokens=120, best_value=0.5, best_step=2)
    assert found.weights["w"].tolist() == [1.0, 2.0]
    assert found.optimizer["w.exp_avg"].tolist() == [0.5, 0.25]
    assert found.ema is None
    assert said == []


def test_checkpoints_that_changed_places_are_seen(checkpoints, said):
    """Every file is whole, and training would go on from elsewhere than it says."""
    save(checkpoints, 10, 20, 30)
    _, second, third = checkpoints.paths()
    second.rename(checkpoints.folder / "other")
    third.rename(second)
    (checkpoints.folder / "other").rename(third)

    assert checkpoints.newest().state.step == 10
    assert "contains the state after update 20" in said[0]
    assert "contains the state after update 30" in said[1]


def test_another_kind_of_folder_is_no_checkpoint(checkpoints, said):
    save(checkpoints, 10)
    with new_folder(checkpoints.folder / "step-00000020", describe={"kind": "model"}):
        pass

    assert checkpoints.newest().state.step == 10
    assert "contains a model, not a checkpoint" in said[0]


def test_partial_checkpoints_of_killed_runs_are_removed(checkpoints):
    """The step may never be saved again, and each draft is as large as a checkpoint."""
    save(checkpoints, 10)
    (checkpoints.folder / ".step-00000013.0a1b2c3d.unfinished").mkdir()
    checkpoints.newest()

    assert names(checkpoints) == ["step-00000010"]


def test_a_damaged_one_of_the_same_step_is_no_hindrance(checkpoints):
    """A run ends with a second save of its last step."""
    save(checkpoints, 10, 20)
    (checkpoints.paths()[1] / "manifest.json").write_bytes(b"\0" * 100)
    save(checkpoints, 20)

    assert checkpoints.newest().state.step == 20


def test_the_checkpoint_of_the_best_model_stays(checkpoints):
    for step in (10, 20, 30, 40, 50):
        save(checkpoints, step, best_step=min(step, 20))
        checkpoints.delete_old(2, 10)

    assert names(checkpoints) == [f"step-000000{n}" for n in (20, 40, 50)]


def test_nothing_is_deleted_where_fewer_than_two_verify(checkpoints, said):
    for step in (10, 20, 30):
        save(checkpoints, step)
    for path in checkpoints.paths()[1:]:
        damage(path)
    save(checkpoints, 40)
    checkpoints.delete_old(1, 10)

    assert names(checkpoints) == [f"step-000000{n}" for n in (10, 30, 40)]
    assert [text.split(" is damaged")[0] for text in said] == [
        *("step-00000030", "step-00000020")
    ]

    damage(checkpoints.paths()[0])
    checkpoints.delete_old(1, 10)
    assert len(names(checkpoints)) == 3


def test_an_old_one_that_cannot_be_deleted_does_not_end_the_run(
    checkpoints, said, monkeypatch
):
    def refuse(folder):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(folder))

    monkeypatch.setattr("headwise.storage.remove_folder", refuse)
    save(checkpoints, 10, 20, 30)
    checkpoints.delete_old(1, 10)

    assert "step-00000010 is old, but cannot be deleted" in said[0]


DEEDS = st.sampled_from(["save", "save", "best", "stop", "damage", "restart"])


@given(deeds=st.lists(DEEDS, max_size=25), keep=st.integers(1, 4), data=st.data())
@settings(max_examples=40, deadline=None)
def test_rotation_never_takes_the_best_or_the_last_two_that_verify(deeds, keep, data):
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)  # forty times as fast
        said: list[str] = []
        checkpoints = Checkpoints(Path(folder) / "checkpoints", said.append)
        state = TrainingState()
        for deed in ["save", "save", *deeds]:
            if deed == "damage":
                path = data.draw(st.sampled_from(checkpoints.paths()))
                file = data.draw(st.sampled_from(sorted(os.listdir(path)) or ["x"]))
                (path / file).write_bytes(b"damaged")
            elif deed == "restart":
                if not whole(checkpoints.paths()):
                    break
                checkpoints = Checkpoints(checkpoints.folder, said.append)
                state = checkpoints.newest().state
            else:
                step = state.step + (3 if deed == "stop" else 10 - state.step % 10)
                best = step if deed == "best" else state.best_step
                state = TrainingState(step=step, best_step=best)
                checkpoints.save(state, {"w": torch.ones(1)}, {}, corpus="c")
                before = checkpoints.paths()
                must_stay = {
                    *whole(before)[-2:],
                    *(path for path in before if step_of(path) == best),
                }
                checkpoints.delete_old(keep, 10)
                assert must_stay <= set(checkpoints.paths())


def test_rotation_deletes_old_checkpoints(checkpoints):
    for step in range(10, 210, 10):
        save(checkpoints, step)
        checkpoints.delete_old(3, 10)
    assert names(checkpoints) == [f"step-00000{n}" for n in (180, 190, 200)]


def whole(paths):
    """Return those that verify, found without the code under test."""
    good = []
    for path in paths:
        with suppress(ModelError, FileNotFoundError):
            verify(path)
            good.append(path)
    return good
