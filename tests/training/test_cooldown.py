"""The cooldown of the learning rate, by steps and by time."""

from dataclasses import replace

import pytest
from tests.training.conftest import QUICK, Recorder
from tests.training.test_time_left import facts, settings

from headwise.errors import SettingsError
from headwise.training import time_limit
from headwise.training.callbacks import StepMetrics
from headwise.training.cooldown import (
    Cooldown,
    begin_cooldown,
    cooldown_by_steps,
    fraction,
    resume_cooldown,
)
from headwise.training.progress import TrainingProgress
from headwise.training.schedule import learning_rate
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.time_limit import TimeLimit

CONSTANT = TrainingSettings(
    schedule="constant", learning_rate=1.0, warmup_steps=2, steps=10, cooldown=0.3
)


def test_the_rate_falls_by_1_minus_sqrt_and_would_be_0_after_the_last_step():
    """Three steps, 1/4, 2/4 and 3/4 of the way: 1 - sqrt of that."""
    factors = [Cooldown(7, 9).factor(step) for step in (1, 6, 7, 8, 9, 10, 99)]

    assert factors == pytest.approx([1, 1, 0.5, 1 - 0.5**0.5, 1 - 0.75**0.5, 0, 0])


def test_before_the_last_step_the_schedule_is_brought_down():
    rates = [learning_rate(step, CONSTANT, 512) for step in range(1, 11)]

    assert rates[:7] == [0.5, 1, 1, 1, 1, 1, 1]
    assert rates[7:] == pytest.approx([0.5, 1 - 0.5**0.5, 1 - 0.75**0.5])


def test_equation_3_is_brought_down_too():
    paper = TrainingSettings(steps=10_000, cooldown=0.1)
    plain = replace(paper, cooldown=0.0)

    for step in (1, 4000, 9000):
        assert learning_rate(step, paper, 512) == learning_rate(step, plain, 512)
    halfway = learning_rate(9500, paper, 512) / learning_rate(9500, plain, 512)
    assert halfway == pytest.approx(1 - (500 / 1001) ** 0.5)


def test_without_a_time_limit_the_rates_are_those_of_the_paper():
    assert fraction(TrainingSettings()) == 0
    assert cooldown_by_steps(TrainingSettings()) is None


def test_a_time_limit_brings_a_cooldown_unless_it_is_set_to_0():
    limited = TrainingSettings(steps=100, max_minutes=10)

    assert cooldown_by_steps(limited) == Cooldown(81, 100)
    assert cooldown_by_steps(replace(limited, cooldown=0.0)) is None


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_schedule_that_falls_to_0_has_no_cooldown(name):
    assert cooldown_by_steps(replace(CONSTANT, schedule=name)) is None


@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
def test_a_cooldown_is_a_part_of_training(value):
    with pytest.raises(SettingsError, match="cooldown must be 0 or more and less than"):
        TrainingSettings(cooldown=value)


@pytest.fixture
def now(monkeypatch):
    """The seconds that the clock of a time limit shows, in a list."""
    seconds = [0.0]
    monkeypatch.setattr(time_limit.time, "monotonic", lambda: seconds[0])
    return seconds


def a_limit(now, chosen, *, keeps_time=True):
    """Return a time limit that saw a step of one second, and the state after it."""
    limit = TimeLimit(chosen, facts(), TrainingState(), keeps_time=keeps_time)
    limit.on_start(TrainingState(), chosen, 20)
    now[0] += 1
    state = TrainingState(step=1, seconds=1.0)
    rates = {"loss": 1.0, "learning_rate": 0.1, "gradient_norm": 1.0}
    limit.on_step(StepMetrics(step=1, tokens=100, seconds=1.0, **rates), state)
    return limit, state


def test_time_begins_a_cooldown_in_the_last_fifth_of_it(now):
    """Of 60 s 12 are left: a validation of 3.67 s ends training, 8 steps fit in."""
    chosen = settings(max_minutes=1.0, validate_every=10**6, average_last=1)
    limit, state = a_limit(now, chosen)

    now[0] = 47.9
    assert limit.cooldown_steps(state) == 0
    now[0] = 48.0
    assert limit.cooldown_steps(state) == 8
    assert limit.cooldown_steps(begin_cooldown(state, 8)) == 0


def test_validations_between_the_steps_take_some_of_the_time(now):
    """One of 3.67 s after every second step: a step takes 2.83 s with its share."""
    chosen = settings(max_minutes=1.0, validate_every=2, average_last=1)
    limit, state = a_limit(now, chosen)

    now[0] = 48.0
    assert limit.cooldown_steps(state) == 2


def test_where_no_step_fits_no_cooldown_begins(now):
    """A message would tell of steps that are not made."""
    limit, state = a_limit(now, settings(max_minutes=1.0))

    now[0] = 58.0
    assert limit.cooldown_steps(state) == 0


def test_no_other_rank_begins_a_cooldown_or_ends_training(now):
    limit, state = a_limit(now, settings(max_minutes=1.0), keeps_time=False)

    now[0] = 100.0
    assert limit.cooldown_steps(state) == 0
    assert not limit.is_reached_after(state, 2)


@pytest.mark.parametrize("chosen", [{}, {"max_minutes": 1.0, "cooldown": 0.0}])
def test_without_a_limit_or_a_cooldown_time_begins_none(now, chosen):
    limit, state = a_limit(now, settings(**chosen))

    now[0] = 50.0
    assert limit.cooldown_steps(state) == 0


def test_training_ends_with_the_cooldown(now):
    limit, state = a_limit(now, settings(max_minutes=1.0))
    state = begin_cooldown(state, 8)

    assert (state.cooldown_start, state.cooldown_end) == (2, 9)
    assert not limit.is_reached_after(replace(state, step=7), 8)
    assert limit.is_reached_after(replace(state, step=8), 9)


def test_a_cooldown_goes_on_after_an_interruption():
    chosen = settings(max_minutes=1.0)
    state = begin_cooldown(TrainingState(step=30, seconds=49.0), 8)

    assert resume_cooldown(state, chosen) is state
    assert learning_rate(34, chosen, 512, state) == pytest.approx(
        learning_rate(34, replace(chosen, cooldown=0.0), 512) * (1 - (4 / 9) ** 0.5)
    )


@pytest.mark.parametrize("minutes", [2.0, None])
def test_more_time_calls_a_cooldown_off(minutes):
    state = begin_cooldown(TrainingState(step=30, seconds=49.0), 8)

    found = resume_cooldown(state, settings(max_minutes=minutes))

    assert found == TrainingState(step=30, seconds=49.0)


def test_a_run_cools_down_and_ends_where_the_rate_is_0(make_trainer):
    """Time is told by the test: the fourth step begins a cooldown of three."""
    recorder = Recorder()
    chosen = replace(QUICK, schedule="constant", steps=100, max_minutes=1e6)
    trainer = make_trainer(chosen, callback=recorder)
    trainer.time_limit.cooldown_steps = lambda state: 3 * (state.step == 3)

    trainer.run()

    rates = [each.learning_rate / 0.01 for each in recorder.updates[3:]]
    assert rates == pytest.approx([1, 0.5, 1 - 0.5**0.5, 1 - 0.75**0.5])
    assert recorder.reason.startswith("the time is over")


def test_the_progress_says_when_a_cooldown_begins():
    said = []
    progress = TrainingProgress(facts=facts())
    progress.on_message = said.append
    progress.on_start(TrainingState(), settings(), 20)
    rates = {"loss": 1.0, "learning_rate": 0.1, "gradient_norm": 1.0}
    state = begin_cooldown(TrainingState(step=1, seconds=1.0), 8)
    progress.on_step(StepMetrics(step=1, tokens=100, seconds=1.0, **rates), state)

    assert said[-1] == "the learning rate falls to 0 over the last 8 steps"


@pytest.mark.parametrize(
    ("minutes", "is_off"), [(1.0, False), (1.1, True), (0.9, False)]
)
def test_any_more_time_calls_a_cooldown_off_that_is_over(minutes, is_off):
    """A limit that grew by less than a quarter had no effect: nothing was trained."""
    begun = begin_cooldown(TrainingState(step=30, seconds=49.0), 8, limit=60.0)
    state = replace(begun, step=38, seconds=59.0)

    found = resume_cooldown(state, settings(max_minutes=minutes))

    assert found == (TrainingState(step=38, seconds=59.0) if is_off else state)


def test_one_that_is_under_way_goes_on_with_a_little_more_time():
    begun = begin_cooldown(TrainingState(step=30, seconds=49.0), 8, limit=60.0)
    state = replace(begun, step=35, seconds=55.0)

    assert resume_cooldown(state, settings(max_minutes=1.1)) is state
