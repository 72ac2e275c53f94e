"""The callback that keeps report.html up to date never ends a run."""

import threading
from itertools import count

import pytest
from tests.reports.conftest import Opened

from headwise.errors import Stopped
from headwise.metrics.score import Score
from headwise.reports import run_page
from headwise.reports.run_page import RunPage
from headwise.training.callbacks import StepMetrics
from headwise.training.log import JsonLog
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.validation import Attention, Sample, Validation

SETTINGS = TrainingSettings(steps=100)
VALIDATION = Validation(
    loss=1.0,
    scores={"bleu": Score("BLEU", 12.5, "sig", True, 0.75)},
    num_scored=1,
    samples=(
        Sample(
            source="a",
            reference="b",
            output="c",
            attention=Attention(source=("a",), target=("b",), weights=((1.0,),)),
        ),
    ),
)


def update(step, loss=2.5):
    return StepMetrics(
        step=step,
        loss=loss,
        learning_rate=0.1,
        gradient_norm=1.0,
        tokens=100,
        seconds=0.5,
    )


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "en-de"
    folder.mkdir()
    (folder / "recipe.toml").write_text("seed = 7\n")
    return folder


@pytest.fixture
def said():
    return []


@pytest.fixture
def callbacks(folder, said):
    """Return what a run has: the page, and the log that it reads when it goes on."""
    return [RunPage(folder, say=said.append), JsonLog(folder / "log.jsonl")]


def page_of(folder):
    return Opened((folder / "report.html").read_text(encoding="utf-8"))


def tell(callbacks, what, *facts):
    for callback in callbacks:
        getattr(callback, what)(*facts)


def train(callbacks, first, last, *, validated=(), **state):
    before = TrainingState(step=first - 1, seconds=0.5 * (first - 1), **state)
    tell(callbacks, "on_start", before, SETTINGS, 10)
    for step in range(first, last + 1):
        now = TrainingState(step=step, seconds=0.5 * step)
        tell(callbacks, "on_step", update(step), now)
        if step in validated:
            tell(callbacks, "on_validation", VALIDATION, now, "now", True)


def steps_shown(folder):
    loss, *_ = page_of(folder).data
    return loss["series"][0]["x"]


def test_a_page_is_there_from_the_start(callbacks, folder):
    tell(callbacks, "on_start", TrainingState(), SETTINGS, 10)

    assert page_of(folder).said("h1") == ["en-de"]
    assert page_of(folder).said("pre") == ["seed = 7\n"]


def test_a_validation_writes_a_new_page(callbacks, folder):
    train(callbacks, 1, 4, validated=[4])

    assert steps_shown(folder) == [1, 2, 3, 4]
    assert "12.5 ± 0.8" in page_of(folder).said("dd")
    assert page_of(folder).all("svg", **{"class": "heat"})


def test_between_validations_a_page_is_written_now_and_then(
    callbacks, folder, monkeypatch
):
    train(callbacks, 1, 3)
    assert page_of(folder).data == []

    monkeypatch.setattr(run_page, "SECONDS_BETWEEN", 0.0)
    tell(callbacks, "on_step", update(4), TrainingState(step=4, seconds=2.0))

    assert steps_shown(folder) == [1, 2, 3, 4]
    assert "about 48 s left" in page_of(folder).said("small")


def test_the_last_page_says_how_it_ended(callbacks, folder):
    train(callbacks, 1, 3)
    tell(callbacks, "on_message", "a note")
    tell(callbacks, "on_end", TrainingState(step=3, seconds=1.5), "stopped")

    page = page_of(folder)
    assert "stopped" in page.said("span")
    assert "a note" in page.said("li")
    assert "data-running" not in page.all("body")[0]


def test_a_resumed_run_shows_its_past_and_no_step_twice(folder, said):
    """Killed after update 5; the checkpoint is of update 3."""

    def begun():
        return [RunPage(folder, say=said.append), JsonLog(folder / "log.jsonl")]

    train(begun(), 1, 5, validated=[3])
    train(begun(), 4, 6, validated=[6], validated_step=3)

    assert steps_shown(folder) == [1, 2, 3, 4, 5, 6]
    assert "resumed from step 3" in page_of(folder).said("li")
    assert said == []


def test_a_folder_whose_name_is_not_utf_8_has_a_page(tmp_path, said):
    """It had none: the name of a folder may be any bytes."""
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    (folder / "recipe.toml").write_text("seed = 7\n")
    callbacks = [RunPage(folder, say=said.append), JsonLog(folder / "log.jsonl")]
    train(callbacks, 1, 2)
    tell(callbacks, "on_message", f"{folder} is full")
    tell(callbacks, "on_end", TrainingState(step=2), "done")

    assert said == []
    assert "caf?" in (folder / "report.html").read_text(encoding="utf-8")


def test_what_is_shown_live_is_what_the_log_gives(callbacks, folder):
    """Drawn from memory while it trains, and from the file afterwards."""
    from headwise.reports.history import read_history

    train(callbacks, 1, 6, validated=[2, 4])
    tell(callbacks, "on_message", "a note")
    tell(callbacks, "on_end", TrainingState(step=6, seconds=3.0), "6 updates are done")

    assert read_history(folder / "log.jsonl") == callbacks[0].history


def test_a_page_that_cannot_be_written_gives_one_message_and_training_continues(
    callbacks, folder, said
):
    (folder / "report.html").mkdir()
    train(callbacks, 1, 4, validated=[2, 4])
    tell(callbacks, "on_end", TrainingState(step=4), "done")

    (once,) = said
    assert "report.html could not be updated" in once


def test_a_fault_in_drawing_is_no_fault_of_the_run(callbacks, said, monkeypatch):
    monkeypatch.setattr(run_page, "run_report", lambda *_: 1 / 0)
    train(callbacks, 1, 4, validated=[2])

    assert len(said) == 1
    assert "division by zero" in said[0]


def test_a_page_is_written_again_once_that_can_be(callbacks, folder, said):
    (folder / "report.html").mkdir()
    train(callbacks, 1, 2, validated=[2])
    (folder / "report.html").rmdir()
    tell(callbacks, "on_end", TrainingState(step=2), "done")

    assert steps_shown(folder) == [1, 2]
    assert len(said) == 1


def test_a_stop_signal_passes_through(callbacks, monkeypatch):
    def stop(*_):
        raise Stopped("now")

    monkeypatch.setattr(run_page, "run_report", stop)
    with pytest.raises(Stopped):
        callbacks[0].on_start(TrainingState(), SETTINGS, 10)


def test_a_log_that_cannot_be_read_is_said(folder, said):
    (folder / "log.jsonl").mkdir()
    page = RunPage(folder, say=said.append)
    page.on_start(TrainingState(step=3), SETTINGS, 10)

    assert "log.jsonl cannot be read" in said[0]
    assert page_of(folder).said("h1") == ["en-de"]


def test_a_run_may_end_from_another_thread_amid_an_update(callbacks, folder, said):
    """As it does when a stop signal is not handled in time."""
    page = callbacks[0]
    page.on_start(TrainingState(), SETTINGS, 10)
    over = threading.Event()

    def go_on():
        for step in count(1):
            page.on_step(update(step), TrainingState(step=step, seconds=0.5 * step))
            if over.is_set():
                return

    training = threading.Thread(target=go_on)
    training.start()
    for _ in range(5):
        page.on_end(TrainingState(step=1), "stopped")
    over.set()
    training.join()

    assert said == []
    assert "stopped" in page_of(folder).said("span")


def test_the_samples_of_the_best_model_are_linked(callbacks, folder):
    (page, *_) = [each for each in callbacks if isinstance(each, RunPage)]
    assert page.best_sources == []
    train(callbacks, 1, 4, validated=(2, 4))

    sources = page.best_sources
    page.link_samples({sources[0]: "inspection/sample-1.html"})

    assert sources == [each.source for each in VALIDATION.samples]
    assert page_of(folder).all("a", href="inspection/sample-1.html")
