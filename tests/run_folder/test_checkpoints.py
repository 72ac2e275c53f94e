"""Checkpoints are whole or absent, and damage costs no more than it must."""

import shutil

import pytest
import torch

from headwise.errors import ModelError
from headwise.run_folder.checkpoints import Checkpoints
from headwise.training.state import TrainingState


@pytest.fixture
def said():
    return []


@pytest.fixture
def checkpoints(tmp_path, said):
    return Checkpoints(tmp_path / "checkpoints", said.append)


def save(checkpoints, *steps):
    for step in steps:
        checkpoints.save(
            TrainingState(step=step, best_value=0.1, seconds=1.5),
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


def test_what_was_saved_is_opened(checkpoints):
    save(checkpoints, 20)
    found = checkpoints.newest()

    assert found.state == TrainingState(step=20, best_value=0.1, seconds=1.5)
    assert found.weights["w"].item() == 20
    assert found.optimizer["w.exp_avg"].item() == 10
    assert checkpoints.newest_corpus() == "of this text"


def test_the_running_mean_of_the_weights_is_kept_where_there_is_one(checkpoints):
    weights = {"w": torch.tensor([1.0])}
    checkpoints.save(TrainingState(step=1), weights, {}, corpus="c")
    assert checkpoints.newest().ema is None

    mean = {"w": torch.tensor([0.5])}
    checkpoints.save(TrainingState(step=2), weights, {}, ema=mean, corpus="c")
    assert checkpoints.newest().ema["w"].item() == 0.5
    assert checkpoints.newest().weights["w"].item() == 1.0


def test_before_the_first_there_is_none(checkpoints):
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


def test_where_none_can_be_used_nothing_is_begun_anew_and_nothing_moved(checkpoints):
    """Training from step 0 would soon write a worse model over the best."""
    save(checkpoints, 10, 20)
    for path in checkpoints.paths():
        damage(path)
    before = names(checkpoints)

    for _ in range(2):
        with pytest.raises(ModelError, match=r"no checkpoint .* another folder"):
            checkpoints.newest()
    assert names(checkpoints) == before


def test_the_last_of_the_rhythm_stay_and_the_newest_two(checkpoints):
    for step in (10, 20, 30, 40, 50):
        save(checkpoints, step)
        checkpoints.forget_old(2, 10)
    assert names(checkpoints) == ["step-00000040", "step-00000050"]

    for step in (53, 57):  # two stops in between
        save(checkpoints, step)
        checkpoints.forget_old(3, 10)
    assert names(checkpoints) == [f"step-000000{n}" for n in (40, 50, 53, 57)]


def test_an_interrupted_run_averages_what_an_uninterrupted_one_does(
    checkpoints, tmp_path, said
):
    calm = Checkpoints(tmp_path / "calm", said.append)
    for step in (10, 20, 30, 40):
        save(calm, step)
        calm.forget_old(3, 10)
    for step in (10, 13, 20, 24, 27, 30, 31, 40):
        save(checkpoints, step)
        checkpoints.forget_old(3, 10)

    assert steps(checkpoints.last_weights(3, 10)) == steps(calm.last_weights(3, 10))
    assert steps(calm.last_weights(3, 10)) == [20, 30, 40]


def test_the_end_counts_whatever_its_step_is(checkpoints):
    save(checkpoints, 10, 20, 23)

    assert steps(checkpoints.last_weights(2, 10)) == [20, 23]
    save(checkpoints, 30)  # the run was made longer
    assert steps(checkpoints.last_weights(3, 10)) == [10, 20, 30]


def test_the_mean_does_without_a_damaged_one_and_says_so(checkpoints, said):
    """After hours of training, an old checkpoint must not take the end away."""
    save(checkpoints, 10, 20, 30)
    damage(checkpoints.paths()[0])

    assert steps(checkpoints.last_weights(3, 10)) == [20, 30]
    assert "step-00000010 is left out of the mean" in said[0]


def test_what_others_put_beside_them_is_no_checkpoint(checkpoints):
    save(checkpoints, 10)
    (checkpoints.folder / "step-notes").mkdir()
    (checkpoints.folder / "step-00000020.bak").mkdir()
    (checkpoints.folder / ".step-00000030.0a1b2c3d.unfinished").mkdir()

    assert [path.name for path in checkpoints.paths()] == ["step-00000010"]
    assert checkpoints.newest().state.step == 10


def test_a_state_of_a_future_version_is_no_state_of_ours(checkpoints, said):
    save(checkpoints, 10, 20)
    path = checkpoints.paths()[1]
    shutil.copy(path / "manifest.json", path / "state.json")

    assert checkpoints.newest().state.step == 10
    assert "state.json" in said[0]
