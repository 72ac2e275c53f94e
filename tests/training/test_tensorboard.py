"""What TensorBoard itself reads: every curve, and each step once, whatever happened."""

from dataclasses import replace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from headwise.metrics.score import Score
from headwise.training import tensorboard
from headwise.training.callbacks import StepMetrics
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.tensorboard import FILES, TensorBoardEvents
from headwise.training.validation import Sample, Validation

SETTINGS = TrainingSettings()
VALIDATION = Validation(
    loss=1.5,
    scores={"bleu": Score("BLEU", 12.5, "sig", True)},
    num_scored=1,
    samples=(Sample(source="ein <b>Hund</b>", reference="a dog", output="a dög"),),
)
MEAN = "mean of the last 2 checkpoints"


def update(step, loss=2.5):
    return StepMetrics(
        step=step,
        loss=loss,
        learning_rate=0.25,
        gradient_norm=1.5,
        tokens=100,
        seconds=0.5,
    )


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run" / "tensorboard"


@pytest.fixture
def said():
    return []


@pytest.fixture
def events(folder, said):
    return TensorBoardEvents(folder, say=said.append)


def a_run(events, first, last, *, validated=(), loss=2.5, **state):
    events.on_start(TrainingState(step=first - 1, **state), SETTINGS, 10)
    for step in range(first, last + 1):
        events.on_step(update(step, loss), TrainingState(step=step))
        if step in validated:
            events.on_validation(VALIDATION, TrainingState(step=step), "now", True)


def shown(folder):
    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def points(folder, tag="loss/training"):
    return [(each.step, each.value) for each in shown(folder).Scalars(tag)]


def test_tensorboard_shows_every_curve(events, folder):
    a_run(events, 1, 2, validated=[2])
    events.on_message("a note")
    events.on_end(TrainingState(step=2), "2 updates are done")

    assert sorted(shown(folder).Tags()["scalars"]) == [
        "loss/training",
        "loss/validation",
        "scores/BLEU, validation",
        "training/gradient norm",
        "training/learning rate",
        "training/tokens per second",
    ]
    assert points(folder) == [(1, 2.5), (2, 2.5)]
    assert points(folder, "training/tokens per second") == [(1, 200.0), (2, 200.0)]
    assert points(folder, "scores/BLEU, validation") == [(2, 12.5)]


def test_samples_are_shown_as_they_are(events, folder):
    """Four blanks before each line make it code, of which no mark-up is read."""
    a_run(events, 1, 1, validated=[1])

    (text,) = shown(folder).Tensors("sample 1, validation/text_summary")
    lines = text.tensor_proto.string_val[0].decode().split("\n")
    assert lines == [
        "    source     ein <b>Hund</b>",
        "    reference  a dog",
        "    output     a dög",
    ]


def test_the_mean_of_checkpoints_has_curves_of_its_own(events, folder):
    a_run(events, 1, 2, validated=[2])
    better = replace(VALIDATION, loss=1.25)
    events.on_validation(better, TrainingState(step=2), MEAN, True)

    assert points(folder, "loss/validation") == [(2, 1.5)]
    assert points(folder, "loss/averaged") == [(2, 1.25)]


def test_no_step_is_shown_twice_after_a_resume(events, folder):
    """Killed after update 5; the checkpoint is of update 3."""
    a_run(events, 1, 5, validated=[3])
    a_run(events, 4, 6, validated_step=3, loss=2.0)

    assert points(folder) == [
        *((n, 2.5) for n in (1, 2, 3)),
        *((n, 2.0) for n in (4, 5, 6)),
    ]
    assert points(folder, "loss/validation") == [(3, 1.5)]


def test_a_tensorboard_that_was_open_all_the_time_shows_no_step_twice(events, folder):
    a_run(events, 1, 5)
    open_page = shown(folder)
    a_run(events, 4, 6, loss=2.0)
    open_page.Reload()

    steps = [each.step for each in open_page.Scalars("loss/training")]
    assert steps == [1, 2, 3, 4, 5, 6]


def test_a_validation_that_will_be_made_again_is_cut_too(events, folder):
    """Stopped while step 3 was validated: the state does not hold that yet."""
    a_run(events, 1, 3, validated=[3])
    events.on_start(TrainingState(step=3, validated_step=0), SETTINGS, 10)

    assert [step for step, _ in points(folder)] == [1, 2, 3]
    assert "loss/validation" not in shown(folder).Tags()["scalars"]


def test_a_validation_of_the_average_that_will_be_repeated_is_cut_too(events, folder):
    a_run(events, 1, 3, validated=[3])
    events.on_validation(VALIDATION, TrainingState(step=3), MEAN, True)
    events.on_start(TrainingState(step=3, validated_step=3), SETTINGS, 10)

    tags = shown(folder).Tags()["scalars"]
    assert "loss/validation" in tags
    assert "loss/averaged" not in tags


@pytest.mark.parametrize("half", [b"\x20", b"\x20" * 40, b"\x00" * 64])
def test_half_a_record_of_a_killed_run_is_cut(events, folder, half):
    a_run(events, 1, 2)
    (path,) = folder.glob(f"{FILES}*")
    with path.open("ab") as file:
        file.write(half)
    size = path.stat().st_size
    a_run(events, 3, 3)

    assert path.stat().st_size == size - len(half)
    assert [step for step, _ in points(folder)] == [1, 2, 3]


def test_a_record_that_was_cut_short_is_cut_off(events, folder):
    a_run(events, 1, 2)
    (path,) = folder.glob(f"{FILES}*")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 3)
    a_run(events, 2, 3, loss=2.0)

    assert points(folder) == [(1, 2.5), (2, 2.0), (3, 2.0)]


def test_every_record_is_on_disk_at_once(events, folder):
    """Nothing waits in a queue for a process that may be killed."""
    events.on_start(TrainingState(), SETTINGS, 10)
    events.on_step(update(1), TrainingState(step=1))

    assert points(folder) == [(1, 2.5)]


def test_a_place_that_cannot_be_written_is_said_once_and_training_goes_on(
    tmp_path, said
):
    (tmp_path / "file").write_text("in the way")
    events = TensorBoardEvents(tmp_path / "file" / "tensorboard", say=said.append)
    a_run(events, 1, 3, validated=[2])
    events.on_end(TrainingState(step=3), "done")

    (once,) = said
    assert "training goes on" in once
    assert str(tmp_path / "file" / "tensorboard") in once


def test_a_disk_that_fills_up_ends_the_curves_and_nothing_else(
    events, folder, said, monkeypatch
):
    a_run(events, 1, 2)
    monkeypatch.setattr(tensorboard.Path, "open", full)
    events.on_step(update(3), TrainingState(step=3))
    monkeypatch.undo()
    events.on_step(update(4), TrainingState(step=4))

    assert len(said) == 1
    assert "No space left" in said[0]
    assert [step for step, _ in points(folder)] == [1, 2]


def full(*_, **__):
    raise OSError(28, "No space left on device")
