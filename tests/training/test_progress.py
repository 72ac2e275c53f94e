"""Progress: plain lines in a pipe, a bar in a terminal, nothing on stdout."""

import sys
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from headwise.metrics.score import Score
from headwise.training import progress
from headwise.training.callbacks import StepMetrics
from headwise.training.progress import TrainingProgress
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.validation import Sample, Validation

SETTINGS = TrainingSettings(steps=1000)


def an_update(step):
    return StepMetrics(
        step=step,
        loss=2.0,
        learning_rate=0.1,
        gradient_norm=1.0,
        tokens=400,
        seconds=0.1,
    )


def a_validation(output):
    return Validation(
        loss=1.0,
        scores={"bleu": Score("BLEU", 12.345, "sig", True)},
        num_scored=1,
        samples=(Sample(source="[red]q[/red]", reference="r", output=output),),
    )


@pytest.fixture
def pipe():
    return StringIO()


@pytest.fixture
def in_a_pipe(pipe):
    return TrainingProgress(Console(file=pipe, width=40))


def test_a_loss_that_is_no_likelihood_has_no_perplexity(in_a_pipe, pipe):
    found = replace(a_validation("x"), has_perplexity=False)
    in_a_pipe.on_validation(found, TrainingState(step=1), "now", True)

    assert "perplexity" not in pipe.getvalue()
    assert "validation loss 1.000, BLEU 12.3" in pipe.getvalue()


def test_a_pipe_gets_plain_whole_lines(in_a_pipe, pipe):
    state = TrainingState(step=1000, seconds=125.0, tokens=400_000)
    in_a_pipe.on_start(TrainingState(), SETTINGS, 50)
    in_a_pipe.on_validation(a_validation("x " * 60 + "end"), state, "now", True)
    in_a_pipe.on_end(state, "1,000 updates are done")

    text = pipe.getvalue()
    assert "\x1b" not in text
    assert "\r" not in text
    assert text.split("\n") == [
        "training: up to 1,000 steps; an epoch has about 50",
        "step 1,000 after 2 min 05 s: validation loss 1.000, perplexity 2.72, "
        "BLEU 12.3 (best so far)",
        "    [red]q[/red]",
        f"    → {'x ' * 60}end",
        "training ended: 1,000 updates are done (step 1,000, 2 min 05 s, 400,000 "
        "tokens)",
        "",
    ]


def test_a_run_that_has_made_all_its_steps_says_so_first(in_a_pipe, pipe):
    """It said "going on from step 500: up to 500 steps, 2 epochs at most"."""
    settings = TrainingSettings(steps=500, epochs=2)
    in_a_pipe.on_start(TrainingState(step=500, epoch=5), settings, 100)
    in_a_pipe.on_start(TrainingState(step=500, epoch=2), settings, 250)

    assert pipe.getvalue().splitlines() == [
        "no step is left to train: 500 updates are done, more than the 2 epochs asked "
        "for",
        "no step is left to train: 500 updates are done",
    ]


def test_samples_are_shown_without_markup(in_a_pipe, pipe):
    """rich would turn :cat: into a picture and [b] into bold type."""
    in_a_pipe.on_validation(
        a_validation(":cat: [b]bold[/b] [/]"), TrainingState(step=1), "now", False
    )

    assert "→ :cat: [b]bold[/b] [/]\n" in pipe.getvalue()


def test_a_pipe_gets_a_line_now_and_then(in_a_pipe, pipe, monkeypatch):
    in_a_pipe.on_start(TrainingState(), SETTINGS, 50)
    for step in range(1, 10):
        in_a_pipe.on_step(an_update(step), TrainingState(step=step))
    before = pipe.getvalue()
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    in_a_pipe.on_step(an_update(100), TrainingState(step=100, epoch=2))

    assert "step 9" not in before
    # 900 steps are left, of 0.1 s each
    last = "step 100: epoch 2.0, loss 2.000, 4,000 tokens/s, 1 min 30 s left\n"
    assert pipe.getvalue().endswith(last)


def test_the_time_left_is_that_of_the_limit_if_that_comes_first(
    in_a_pipe, pipe, monkeypatch
):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    in_a_pipe.on_start(TrainingState(), replace(SETTINGS, max_minutes=1.0), 50)
    in_a_pipe.on_step(an_update(10), TrainingState(step=10, seconds=20.0))
    in_a_pipe.on_step(an_update(11), TrainingState(step=11, seconds=70.0))

    text = pipe.getvalue()
    assert "1 min at most" in text
    assert "40 s left" in text
    assert "0 s left" in text


def test_a_resumed_run_says_from_which_step(in_a_pipe, pipe):
    in_a_pipe.on_start(TrainingState(step=300), SETTINGS, 50)

    assert pipe.getvalue().startswith("going on from step 300: up to 1,000 steps")


def test_a_terminal_gets_a_progress_bar_that_is_removed():
    screen = StringIO()
    shown = TrainingProgress(Console(file=screen, force_terminal=True, width=100))
    shown.on_start(TrainingState(), SETTINGS, 50)
    shown.on_step(an_update(500), TrainingState(step=500))
    shown._bar.refresh()
    shown.on_end(TrainingState(step=500), "stopped")
    shown.on_end(TrainingState(step=500), "stopped")  # twice does no harm

    assert "step 500/1,000" in screen.getvalue()
    assert "4,000 tokens/s" in screen.getvalue()
    assert "training ended: stopped" in screen.getvalue()


def test_progress_is_written_to_stderr_by_default(capsys):
    TrainingProgress().on_message("for people")

    out, error = capsys.readouterr()
    assert (out, error) == ("", "for people\n")
    assert TrainingProgress().console.file is sys.stderr
