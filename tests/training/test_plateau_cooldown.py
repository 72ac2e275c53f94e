"""The cooldown that begins where patience is exhausted (``training.on_plateau``)."""

from dataclasses import replace

import pytest
from tests.training.conftest import QUICK, Recorder, assert_same_weights, weights_of

from headwise.errors import SettingsError
from headwise.training.cooldown import (
    fraction,
    plateau_cooldown,
    resume_cooldown,
)
from headwise.training.epochs import end_reason
from headwise.training.schedule import learning_rate
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.time_left import TimeLeft

CHOSEN = TrainingSettings(
    schedule="constant",
    learning_rate=1.0,
    warmup_steps=2,
    steps=1000,
    patience=3,
    cooldown=0.2,
    on_plateau="cooldown",
)
PLATEAU = TrainingState(step=40, without_gain=3)


def begun(state=PLATEAU, settings=CHOSEN):
    return plateau_cooldown(state, settings)[0]


def test_the_cooldown_is_its_part_of_the_training_that_ends_with_it():
    """40 steps and then 10 are 50, of which the last 10 are a fifth."""
    state, note = plateau_cooldown(PLATEAU, CHOSEN)

    assert (state.plateau_step, state.cooldown_start, state.cooldown_end) == (
        *(40, 41, 50),
    )
    assert note == (
        "3 validations brought no gain: the learning rate falls to 0 over the last "
        "10 steps"
    )


def test_the_rate_is_that_of_the_schedule_up_to_there_and_then_falls():
    state = begun()

    assert learning_rate(40, CHOSEN, 512, state) == 1
    assert learning_rate(41, CHOSEN, 512, state) == pytest.approx(1 - (1 / 11) ** 0.5)
    assert learning_rate(50, CHOSEN, 512, state) == pytest.approx(1 - (10 / 11) ** 0.5)


def test_a_part_that_is_not_set_is_a_fifth():
    assert fraction(replace(CHOSEN, cooldown=None)) == 0.2
    assert begun(settings=replace(CHOSEN, cooldown=None)) == begun()


def test_there_is_one_step_at_least_and_none_beyond_the_last():
    assert begun(replace(PLATEAU, step=1)).cooldown_end == 2
    assert begun(settings=replace(CHOSEN, steps=58, cooldown=0.1)).cooldown_end == 44
    late = replace(PLATEAU, step=799)
    assert begun(late).cooldown_end == 799 + 200
    assert begun(replace(late, step=1000)).cooldown_end == 0


@pytest.mark.parametrize(
    ("state", "settings"),
    [
        (replace(PLATEAU, without_gain=2), CHOSEN),
        (PLATEAU, replace(CHOSEN, on_plateau="stop")),
        (PLATEAU, replace(CHOSEN, patience=4)),
        (replace(PLATEAU, cooldown_start=30, cooldown_end=60), CHOSEN),
        (replace(PLATEAU, step=800), CHOSEN),  # that of the last 200 steps comes next
    ],
)
def test_without_a_plateau_or_with_a_cooldown_none_begins(state, settings):
    assert plateau_cooldown(state, settings) == (state, None)


def test_a_cooldown_that_has_begun_is_not_ended_by_patience():
    late = replace(PLATEAU, step=800)
    facts = {"last_step": 1000, "time_over": None}

    assert end_reason(CHOSEN, late, **facts) is None
    assert end_reason(replace(CHOSEN, on_plateau="stop"), late, **facts) == (
        "3 validations brought no gain"
    )


def test_validations_in_the_cooldown_cost_no_patience_and_win_none_back():
    state = begun()

    for value in (0.0, 2.0):
        after, _ = replace(state, best_value=1.0).after_validation(
            value, 1.0, seconds=5.0, lower_is_better=False
        )
        assert after.without_gain == 3


def test_a_validation_without_a_best_model_costs_no_patience():
    """A run may have lost it."""
    lost = TrainingState(step=8, without_gain=2)

    after, best = lost.after_validation(1.0, 1.0, seconds=5.0, lower_is_better=False)

    assert best
    assert (after.without_gain, after.best_value) == (2, 1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"patience": 4},
        {"patience": None, "on_plateau": "stop"},
        {"on_plateau": "stop"},
    ],
)
def test_more_patience_calls_the_cooldown_off(changes):
    settings = replace(CHOSEN, **changes)

    assert resume_cooldown(begun(), settings) == PLATEAU


@pytest.mark.parametrize("minutes", [None, 1.0, 1e6])
def test_a_time_limit_does_not_call_it_off(minutes):
    settings = replace(CHOSEN, max_minutes=minutes)

    assert resume_cooldown(begun(), settings) == begun()


def test_the_time_left_is_up_to_the_end_of_the_cooldown():
    left = TimeLeft()
    left.on_start(PLATEAU, CHOSEN, 10)

    assert (left.last_step(PLATEAU), left.last_step(begun())) == (1000, 50)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"patience": None}, "set patience"),
        ({"cooldown": 0.0}, "cooldown = 0 is none"),
        ({"schedule": "cosine"}, "'cosine' falls to 0 by itself"),
        ({"schedule": "linear"}, "'linear' falls to 0 by itself"),
        ({"on_plateau": "wait"}, "on_plateau must be one of stop, cooldown, not"),
    ],
)
def test_what_cannot_begin_a_cooldown_is_refused(changes, problem):
    with pytest.raises(SettingsError, match=problem):
        replace(CHOSEN, **changes)


class Listener(Recorder):
    """A recorder that keeps what was said of patience."""

    def __init__(self):
        super().__init__()
        self.said = []

    def on_message(self, text):
        if "brought no gain" in text:
            self.said.append(text)
        else:
            super().on_message(text)


DIVERGING = replace(
    QUICK,
    steps=500,
    schedule="constant",
    learning_rate=3.0,
    validate_every=2,
    measure="loss",
    patience=2,
    cooldown=0.4,
    on_plateau="cooldown",
)
"""The rate is so high that no validation is better than the first ones."""


def test_a_run_on_a_plateau_cools_down_and_ends(make_trainer):
    listener = Listener()
    state = make_trainer(DIVERGING, callback=listener).run()

    start, steps = state.plateau_step, round(state.plateau_step * 0.4 / 0.6)
    assert state.step == state.cooldown_end == start + steps
    assert len(listener.said) == 1
    assert listener.reason == (
        "2 validations brought no gain, and the learning rate has fallen to 0 since"
    )
    rates = [each.learning_rate / 3.0 for each in listener.updates]
    assert rates[3:start] == [1] * (start - 3)
    assert rates[start:] == pytest.approx(
        [1 - (each / (steps + 1)) ** 0.5 for each in range(1, steps + 1)]
    )


def test_it_is_the_same_run_bit_for_bit_wherever_it_was_interrupted(make_trainer):
    """Before the plateau, at its checkpoint, in the cooldown, and after its end."""
    whole = Listener()
    trainer = make_trainer(DIVERGING, callback=whole)
    trainer.run()
    plateau, saved = trainer.state.plateau_step, trainer.checkpoint_writer.saved
    steps = [state.step for state, *_ in saved]
    assert min(steps) < plateau
    assert plateau in steps
    assert any(plateau < each < trainer.state.step for each in steps)

    for number, (state, weights, optimizer) in enumerate(saved):
        rest = Listener()
        resumed = make_trainer(
            DIVERGING,
            state=state,
            weights=weights,
            optimizer=optimizer,
            callback=rest,
        )
        resumed.checkpoint_writer.saved = saved[: number + 1]
        resumed.run()

        assert rest.losses == whole.losses[state.step :], state.step
        assert_same_weights(weights_of(trainer), weights_of(resumed))
        same = {"seconds": 0.0}
        assert replace(resumed.state, **same) == replace(trainer.state, **same)


def test_a_run_that_patience_ended_gets_its_cooldown_later(make_trainer):
    """Then it is the run that had on_plateau = "cooldown" from the start."""
    whole = Listener()
    expected = make_trainer(DIVERGING, callback=whole)
    expected.run()
    stopped = make_trainer(
        replace(DIVERGING, on_plateau="stop", average_last=1), callback=Listener()
    )
    stopped.run()
    state, weights, optimizer = stopped.checkpoint_writer.saved[-1]
    resumed = make_trainer(
        DIVERGING,
        state=state,
        weights=weights,
        optimizer=optimizer,
        callback=Listener(),
    )
    resumed.run()

    assert stopped.state.step == resumed.state.plateau_step
    assert_same_weights(weights_of(expected), weights_of(resumed))
