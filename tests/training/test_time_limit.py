"""The time limit, in runs whose steps and validations take a given time."""

import pytest
from tests.training.test_time_left import facts, settings

from headwise.training import time_limit
from headwise.training.callbacks import StepMetrics
from headwise.training.state import TrainingState
from headwise.training.time_left import FORWARD, SEARCHED
from headwise.training.time_limit import TimeLimit

UPDATE = 1.0
VALIDATION = 200 * (FORWARD + SEARCHED) * 0.01  # as is expected before the first


@pytest.fixture
def run(monkeypatch):
    """Return a function that trains as the trainer does, and when it ended."""
    now = [1000.0]
    monkeypatch.setattr(time_limit.time, "monotonic", lambda: now[0])

    def train(chosen, *, start_up=0.0, begun=None):
        state = begun or TrainingState()
        limit = TimeLimit(chosen, facts(), state)
        limit.on_start(state, chosen, 20)
        now[0] += start_up
        late = limit.is_reached_after(state, state.step) and state.step > 0
        validations = 0
        while True:
            step = state.step
            due = late or step % chosen.validate_every == 0
            if step and due and state.validated_step != step:
                now[0] += VALIDATION
                validations += 1
                limit.on_validation(None, state, "now", False)
                state = TrainingState(
                    step=step, validated_step=step, seconds=limit.seconds
                )
            if late:
                break
            now[0] += UPDATE
            late = limit.is_reached_after(state, step + 1)
            state = TrainingState(
                step=step + 1,
                validated_step=state.validated_step,
                seconds=limit.seconds,
            )
            update = StepMetrics(
                step=step + 1,
                loss=1.0,
                learning_rate=0.1,
                gradient_norm=1.0,
                tokens=100,
                seconds=UPDATE,
            )
            limit.on_step(update, state)
        if validations > 1 and chosen.average_last > 1:
            now[0] += VALIDATION
        return limit.seconds, state.step

    return train


@pytest.mark.parametrize("average", [1, 5])
@pytest.mark.parametrize("rhythm", [7, 19, 20, 25, 1000])
@pytest.mark.parametrize("start_up", [0.0, 12.0])
def test_training_ends_within_the_time_limit(run, average, rhythm, start_up):
    """``--max-time 60s`` took 70: the validation at the end came after the time."""
    chosen = settings(
        steps=10**6, max_minutes=1.0, validate_every=rhythm, average_last=average
    )
    seconds, steps = run(chosen, start_up=start_up)

    assert seconds <= 60
    assert seconds >= 60 - 2 * VALIDATION - 2 * UPDATE  # and the time is made use of
    assert steps


def test_a_time_limit_that_is_too_short_still_gives_one_step_and_a_validation(run):
    seconds, steps = run(settings(max_minutes=1e-9))

    assert steps == 1
    assert seconds == pytest.approx(UPDATE + VALIDATION)


def test_earlier_training_counts_towards_the_time_limit(run):
    chosen = settings(steps=10**6, max_minutes=1.0)
    begun = TrainingState(step=30, seconds=40.0)
    seconds, steps = run(chosen, begun=begun)

    assert 60 - VALIDATION - 2 * UPDATE <= seconds <= 60
    assert 30 < steps < 50


def test_a_run_whose_time_was_over_makes_no_more_updates(run):
    begun = TrainingState(step=30, validated_step=30, seconds=61.0)

    assert run(settings(max_minutes=1.0), begun=begun) == (61.0, 30)


def test_only_a_limit_that_will_be_exceeded_is_said_to_be(monkeypatch):
    """One step of a second, and a validation of 200 tokens as expected, 3.7 s."""
    now = [1000.0]
    monkeypatch.setattr(time_limit.time, "monotonic", lambda: now[0])
    state = TrainingState(step=1, seconds=1.0)
    found = {}
    for seconds in (2.0, 60.0, None):
        chosen = settings(max_minutes=None if seconds is None else seconds / 60)
        limit = TimeLimit(chosen, facts(), TrainingState())
        limit.on_start(TrainingState(), chosen, 20)
        now[0] += UPDATE
        step = {"step": 1, "loss": 1.0, "learning_rate": 0.1, "gradient_norm": 1.0}
        limit.on_step(StepMetrics(**step, tokens=100, seconds=UPDATE), state)
        found[seconds] = limit.overrun(state)

    assert found == {
        2.0: "the time limit of 2 s is exceeded: start-up, one step, a validation and "
        "a checkpoint are made in any case",
        60.0: None,
        None: None,
    }


@pytest.mark.parametrize(
    ("limit", "end", "is_said"),
    [(10.0, 10.9, False), (10.0, 11.1, True), (60.0, 62.9, False), (60.0, 63.1, True)],
)
def test_an_end_that_is_little_too_late_is_not_said(monkeypatch, limit, end, is_said):
    """Up to a twentieth of the limit, and up to a second."""
    chosen = settings(max_minutes=limit / 60)
    found = TimeLimit(chosen, facts(), TrainingState())
    monkeypatch.setattr(TimeLimit, "seconds", 0.0)
    monkeypatch.setattr(found._time_left, "seconds_to_end", lambda *_: end)

    assert bool(found.overrun(TrainingState(step=1))) == is_said


def test_without_a_time_limit_training_goes_on():
    state = TrainingState()
    assert not TimeLimit(settings(), facts(), state).is_reached_after(state, 1)
